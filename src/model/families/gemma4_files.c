/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 4 has two kinds of layers, with and without a window, which differ in other settings
 * too. In GGUF, keys that end in _swa belong to layers with a window, and the same keys without
 * _swa to layers with full attention. Numbers that differ between layers are arrays. Sources:
 * configuration_gemma4.py of Hugging Face Transformers, and llama.cpp's converter.
 */
#include "model/model_family.h"

#include <stdio.h>

#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"global_head_dim", NULL, INT, AT(gemma4.head_dim), 2, 1024, 512},
	{"num_global_key_value_heads", NULL, INT, AT(gemma4.kv_heads), 1, 1024, 0},
	{"attention_k_eq_v", NULL, BOOL, AT(gemma4.keys_are_values), 0, 1, 0},
	{"num_kv_shared_layers", NULL, INT, AT(gemma4.n_kv_shared), 0, 1024, 0},
	{"use_double_wide_mlp", NULL, BOOL, AT(gemma4.wide_mlp), 0, 1, 0},
	{"hidden_size_per_layer_input", NULL, INT, AT(gemma4.embed_dim), 0, 1 << 14, 256},
	{"vocab_size_per_layer_input", NULL, INT, AT(gemma4.embed_rows), 2, 1 << 24, 262144},
	{"final_logit_softcapping", NULL, FLOAT, AT(logit_cap), 1e-3, 1e6, 0},
	{"enable_moe_block", NULL, BOOL, AT(gemma4.has_experts), 0, 1, 0},
	{"num_experts", NULL, INT, AT(n_experts), 1, 4096, 0},
	{"top_k_experts", NULL, INT, AT(n_experts_used), 1, 256, 0},
	{"moe_intermediate_size", NULL, INT, AT(expert_dim), 8, 1 << 20, 0},
	{0}};

static const char per_layer[] = "per_layer_config";

/* The number `key` of layer i, or 0. */
static json_int_t own_number(const json_t *all, int32_t i, const char *key)
{
	char layer[16];
	snprintf(layer, sizeof layer, "%d", i);
	const json_t *own = json_object_get(all, layer);
	return json_integer_value(json_object_get(own, key));
}

/* Read per_layer_config, the settings of single layers. All layers without a window must have
 * the same settings, and the others must have none. */
static enum status read_per_layer(const json_t *all, struct model_config *c,
				  struct fail *fail)
{
	static const char dim[] = "head_dim", heads[] = "num_key_value_heads";
	json_int_t n_dim = 0, n_heads = 0;
	for (int32_t i = 0; i < c->n_layers; i++)
		if (!model_has_window(c, i)) {
			n_dim = own_number(all, i, dim);
			n_heads = own_number(all, i, heads);
		}
	for (int32_t i = 0; i < c->n_layers; i++) {
		bool is_full = !model_has_window(c, i);
		if (own_number(all, i, dim) != (is_full ? n_dim : 0) ||
		    own_number(all, i, heads) != (is_full ? n_heads : 0))
			return config_unsupported(fail, per_layer, all);
	}
	if (n_dim < 0 || n_dim > 1024 || n_heads < 0 || n_heads > 1024)
		return config_unsupported(fail, per_layer, all);
	c->gemma4.head_dim = (int32_t)n_dim;
	c->gemma4.kv_heads = (int32_t)n_heads;
	return OK;
}

static enum status read(const json_t *text, struct arena *a, struct model_config *c,
			struct fail *fail)
{
	const json_t *all = jsonfile_get(text, per_layer);
	enum status st = OK;
	if (!c->is_windowed)
		return config_missing(fail, "sliding_window");
	c->is_windowed[c->n_layers - 1] = false; /* the last layer has no window */
	if (!c->gemma4.keys_are_values)
		c->gemma4.kv_heads = 0;
	if (all)
		st = read_per_layer(all, c, fail);
	if (st != OK)
		return st;
	if (model_head_dim(c, c->n_layers - 1) % 2 ||
	    c->n_heads % model_kv_heads(c, c->n_layers - 1))
		return fail_at(fail, E_FORMAT, "global_head_dim", FILE_NAME
			       ": %d query heads of %d elements cannot share %d key heads",
			       c->n_heads, model_head_dim(c, c->n_layers - 1),
			       model_kv_heads(c, c->n_layers - 1));
	for (int32_t i = c->n_layers - c->gemma4.n_kv_shared; i < c->n_layers; i++)
		if (i < 1 || model_has_window(c, model_kv_layer(c, i)) != model_has_window(c, i))
			return fail_at(fail, E_FORMAT, "num_kv_shared_layers", FILE_NAME
				       ": no layer before the last %d is as layer %d",
				       c->gemma4.n_kv_shared, i);
	if (c->gemma4.has_experts && (c->n_experts == 0 || c->n_experts_used == 0 ||
				  c->expert_dim == 0))
		return config_missing(fail, "num_experts");
	if (!c->gemma4.has_experts)
		c->n_experts = 0;
	c->ropes[0].n_rot = model_head_dim(c, c->n_layers - 1);
	return OK;
}

static void gemma4_fix(struct model_config *c)
{
	c->query_scalar = 1;
	c->sparse_step = 1;
	c->norm_topk = true;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"attention.key_length", "global_head_dim", true, false},
	{"attention.key_length_swa", "head_dim", true, false},
	{"attention.shared_kv_layers", "num_kv_shared_layers", false, false},
	{"embedding_length_per_layer_input", "hidden_size_per_layer_input", false, false},
	{"final_logit_softcapping", "final_logit_softcapping", false, true},
	{"expert_used_count", "top_k_experts", false, false},
	{0}};

static const struct gguf_name gguf_names[] = {
	{"ffn_gate_inp.scale", "router.scale"},
	{"ffn_gate_inp", "router.proj"},
	{"ffn_down_exps.scale", "router.per_expert_scale"},
	{0}};

static bool is_windowed(const struct gguf_model_reader *r, int64_t layer)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.sliding_window_pattern",
						    name);
	int64_t n = 0;
	return v && v->is_array && gguf_integer(v, (uint64_t)layer, &n) && n != 0;
}

/* Read the number of key heads: an array if it differs between the two kinds of layers. */
static enum status read_heads(struct gguf_model_reader *r, int64_t layers)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.head_count_kv", name);
	int64_t n, heads[2] = {0}; /* of layers with full attention, and of those with a window */
	if (!v || !v->is_array)
		return OK;
	for (int64_t i = 0; i < layers; i++) {
		bool is = is_windowed(r, i);
		if (!gguf_integer(v, (uint64_t)i, &n) || n < 1 ||
		    (heads[is] && heads[is] != n))
			return gguf_model_refuse(r, name, v);
		heads[is] = n;
	}
	json_object_set_new(r->config, "num_key_value_heads",
			    json_integer(heads[1] ? heads[1] : heads[0]));
	json_object_set_new(r->config, "num_global_key_value_heads", json_integer(heads[0]));
	return OK;
}

/* Read the widths of dense feed-forwards: an array if the layers that share keys and values are
 * twice as wide. */
static enum status read_widths(struct gguf_model_reader *r, int64_t layers)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "feed_forward_length", name);
	int64_t n, first, own = layers - gguf_model_known(r, "num_kv_shared_layers");
	bool is_wide = true, is_same = true;
	if (!v || !v->is_array)
		return OK;
	if (!gguf_integer(v, 0, &first))
		return gguf_model_refuse(r, name, v);
	for (int64_t i = 0; i < layers; i++) {
		if (!gguf_integer(v, (uint64_t)i, &n))
			return gguf_model_refuse(r, name, v);
		is_same &= n == first;
		is_wide &= n == (i < own ? first : 2 * first);
	}
	if (!is_same && !is_wide)
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "intermediate_size", json_integer(first));
	json_object_set_new(r->config, "use_double_wide_mlp", json_boolean(!is_same));
	return OK;
}

/* Full-attention layers without a v projection use k as v. The last one that has its own keys
 * decides for all. */
static void read_values(struct gguf_model_reader *r, int64_t layers)
{
	char name[80];
	int64_t i = layers - gguf_model_known(r, "num_kv_shared_layers") - 1;
	while (i > 0 && is_windowed(r, i))
		i--;
	snprintf(name, sizeof name, "model.layers.%d.self_attn.v_proj.weight", (int)i);
	json_object_set_new(r->config, "attention_k_eq_v",
			    json_boolean(!tensors_find(r->tensors, name)));
}

/* Each kind of layer has a rope of its own. The tensor rope_freqs says which pairs of the wide
 * heads rotate (model.c). */
static enum status read_ropes(struct gguf_model_reader *r)
{
	static const char factors[] = "rope_freqs.weight";
	static const char *const keys[][2] = {{"rope_theta", "full_attention"},
					      {"rope_local_base_freq", "sliding_attention"}};
	json_t *both = json_object();
	for (int i = 0; i < 2; i++) {
		json_t *theta = json_object_get(r->config, keys[i][0]);
		json_object_set_new(both, keys[i][1],
				    json_pack("{s:s, s:f}", "rope_type", "default",
					      "rope_theta", theta ? json_number_value(theta)
								  : i ? 1e4 : 1e6));
		json_object_del(r->config, keys[i][0]);
	}
	json_object_set_new(r->config, "rope_parameters", both);
	return tensors_find(r->tensors, factors)
		       ? OK
		       : fail_set(r->fail, E_MISSING, "%s: tensor %s is missing", r->path,
				  factors);
}

static enum status gemma4_read_gguf(struct gguf_model_reader *r)
{
	int64_t layers = gguf_model_known(r, "num_hidden_layers");
	json_object_set(r->config, "vocab_size_per_layer_input",
			json_object_get(r->config, "vocab_size"));
	if (!json_object_get(r->config, "hidden_size_per_layer_input"))
		json_object_set_new(r->config, "hidden_size_per_layer_input", json_integer(0));
	json_object_set_new(r->config, "enable_moe_block",
			    json_boolean(gguf_model_known(r, "num_experts") > 0));
	enum status st = read_heads(r, layers);
	if (st == OK)
		st = read_widths(r, layers);
	if (st == OK)
		read_values(r, layers);
	return st == OK ? read_ropes(r) : st;
}

const struct model_family model_family_gemma4 = {
	.settings = settings, .read = read, .fix = gemma4_fix, .gguf_keys = gguf_keys,
	.gguf_names = gguf_names, .has_own_heads = true, .read_gguf = gemma4_read_gguf,
	.of_layers = "num_key_value_heads intermediate_size"};
