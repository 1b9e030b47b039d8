/* SPDX-License-Identifier: Apache-2.0
 *
 * Laguna: heads of each layer, gates, and experts with names of their own. Sources:
 * configuration_laguna.py of Hugging Face Transformers, and llama.cpp's converter.
 */
#include "model/model_family.h"

#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"

static const char heads_key[] = "num_attention_heads_per_layer";
static const char shared_key[] = "shared_expert_intermediate_size";
static const char local_key[] = "swa_partial_rotary_factor"; /* of GGUF alone */

/* mlp_layer_types, of the list of dense layers. */
static void spell_layers(json_t *text)
{
	json_t *dense = json_object_get(text, "mlp_only_layers"), *types, *v;
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	size_t i;
	if (!json_is_array(dense) || jsonfile_get(text, "mlp_layer_types"))
		return;
	types = json_array();
	for (json_int_t l = 0; l < MIN(n, 10000); l++)
		json_array_append_new(types, json_string("sparse"));
	json_array_foreach(dense, i, v)
		if (!json_is_integer(v) || json_array_set_new(types,
				(size_t)json_integer_value(v), json_string("dense")))
			json_array_append_new(types, json_string("?")); /* is refused later */
	json_object_set_new(text, "mlp_layer_types", types);
}

static void laguna_spell(json_t *text)
{
	config_rename(text, "num_experts", "n_routed_experts");
	config_rename(text, "moe_routed_scaling_factor", "routed_scaling_factor");
	spell_layers(text);
	config_default(text, "n_shared_experts", 1);
	config_default(text, "n_group", 1);
	config_default(text, "topk_group", 1);
	config_default(text, "first_k_dense_replace", 1);
	config_default(text, "routed_scaling_factor", 1);
	json_object_set_new(text, "use_qk_norm", json_true());
	if (!jsonfile_get(text, "layer_types")) /* all layers see all */
		json_object_del(text, "sliding_window");
}

/* Read heads_of. */
static enum status read_heads(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail)
{
	const json_t *list = jsonfile_get(text, heads_key);
	if (!list)
		return OK;
	if (json_array_size(list) != (size_t)c->n_layers)
		return config_wrong(fail, heads_key, list, "a list of a number a layer");
	c->heads_of = arena_alloc(a, (size_t)c->n_layers * sizeof *c->heads_of);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *v = json_array_get(list, (size_t)i);
		json_int_t n = json_integer_value(v);
		if (n < 1 || n > 1024 || n % c->n_kv_heads)
			return config_wrong(fail, heads_key, v, "a multiple of the key heads");
		c->heads_of[i] = (int32_t)n;
	}
	return OK;
}

/* Read gate_span: true or "per-head", or "per-element". A list for each layer must say the same
 * for all of them. */
static enum status read_gating(const json_t *text, struct model_config *c, struct fail *fail)
{
	const json_t *v = jsonfile_get(text, "gating"), *types = jsonfile_get(text, "gating_types");
	const json_t *one;
	size_t i;
	const char *s = json_string_value(v);
	bool is_each = s && strcmp(s, "per-element") == 0;
	if (v && !json_is_true(v) && !is_each && (!s || strcmp(s, "per-head") != 0))
		return config_unsupported(fail, "gating", v);
	json_array_foreach((json_t *)(uintptr_t)types, i, one)
		if (!model_family_has(is_each ? "per_element per-element" : "per_head per-head",
				      json_is_string(one) ? json_string_value(one) : ""))
			return config_unsupported(fail, "gating_types", one);
	c->gate_span = is_each ? 1 : c->head_dim;
	return OK;
}

/* The part of a head that rotates in layers with a window. */
static enum status read_local(const json_t *text, struct model_config *c, struct fail *fail)
{
	static const char key[] = "partial_rotary_factor";
	const json_t *of = jsonfile_get(jsonfile_get(text, "rope_parameters"), "sliding_attention");
	const json_t *v = of ? jsonfile_get(of, key) : jsonfile_get(text, local_key);
	double part = v ? json_number_value(v) : 1;
	bool is_part = part > 0 && part <= 1;
	int32_t n = is_part ? (int32_t)(c->head_dim * part) : 0;
	if (!c->is_windowed)
		return OK;
	if (n < 2 || n % 2)
		return config_wrong(fail, key, v, "a part of a head that is even");
	c->ropes[1].n_rot = n;
	return OK;
}

enum status laguna_files_sizes(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	const json_t *shared = jsonfile_get(text, shared_key);
	json_int_t width = json_integer_value(shared);
	if (!shared)
		return config_missing(fail, shared_key);
	if (!json_is_integer(shared) || width < 8 || width > 1 << 20)
		return config_wrong(fail, shared_key, shared, "a width");
	c->shared_dim = (int32_t)width;
	if (c->head_dim == 0)
		return config_missing(fail, "head_dim");
	enum status st = read_heads(text, a, c, fail);
	return st == OK ? read_local(text, c, fail) : st;
}

static enum status laguna_read(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	static const char *const off[] = {"moe_apply_router_weight_on_input",
					  "moe_router_logit_softcapping"};
	for (size_t i = 0; i < ARRAY_LEN(off); i++) {
		const json_t *v = jsonfile_get(text, off[i]);
		if (v && !json_is_false(v) && (!json_is_number(v) || json_number_value(v) != 0))
			return config_unsupported(fail, off[i], v);
	}
	enum status st = laguna_files_sizes(text, a, c, fail);
	return st == OK ? read_gating(text, c, fail) : st;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_name gguf_names[] = {
	{"attn_gate", "self_attn.g_proj"},
	GGUF_SHARED_EXPERTS("shared_expert"),
	{0}};

enum status laguna_files_gguf_heads(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.head_count", name);
	int64_t n;
	if (!v || !v->is_array)
		return OK;
	json_t *list = json_array();
	for (uint64_t i = 0; i < v->n && gguf_integer(v, i, &n); i++)
		json_array_append_new(list, json_integer(n));
	json_object_set(r->config, "num_attention_heads", json_array_get(list, 0));
	json_object_set_new(r->config, heads_key, list);
	return v->n && json_array_size(list) == v->n ? OK : gguf_model_refuse(r, name, v);
}

/* Gates are told by their number. Of windows the file says which layers have none, or that every
 * fourth has none, the first one too. */
static enum status laguna_read_gguf(struct gguf_model_reader *r)
{
	char name[96];
	int64_t n = 0, layers, dim = gguf_model_known(r, "head_dim");
	enum status st = laguna_files_gguf_heads(r);
	if (st != OK)
		return st;
	const struct tensor *gate =
		tensors_find(r->tensors, "model.layers.0.self_attn.g_proj.weight");
	const json_t *heads = json_array_get(json_object_get(r->config, heads_key), 0);
	int64_t n_heads = heads ? json_integer_value(heads)
				: gguf_model_known(r, "num_attention_heads");
	bool is_each = gate && gate->n_dims == 2 && gate->dim[0] != n_heads;
	json_object_set_new(r->config, "gating", json_string(is_each ? "per-element" : "per-head"));
	const struct gguf_value *v = gguf_model_key(r, "rope.dimension_count_swa", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n < 2 || n > dim))
		return gguf_model_refuse(r, name, v);
	if (v)
		json_object_set_new(r->config, local_key, json_real((double)n / (double)dim));
	v = gguf_model_key(r, "attention.sliding_window_pattern", name);
	layers = gguf_model_known(r, "num_hidden_layers");
	if (v || gguf_model_known(r, "sliding_window") == 0)
		return OK;
	json_t *types = json_array();
	for (int64_t i = 0; i < layers; i++)
		json_array_append_new(types, json_string(i % 4 ? "sliding_attention"
							       : "full_attention"));
	json_object_set_new(r->config, "layer_types", types);
	return OK;
}

const struct model_family model_family_laguna = {
	.reads = "shared_expert_intermediate_size", .spell = laguna_spell, .read = laguna_read,
	.gguf_names = gguf_names, .of_layers = "num_attention_heads",
	.read_gguf = laguna_read_gguf};
