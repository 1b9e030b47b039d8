/* SPDX-License-Identifier: Apache-2.0
 *
 * Granite 4 hybrids and Bamba: state spaces of Mamba-2 beside attention. In GGUF both are a
 * "granitehybrid". Sources: configuration_granitemoehybrid.py and configuration_bamba.py of
 * Hugging Face Transformers, and llama.cpp's converter.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"num_local_experts", NULL, INT, AT(n_experts), 0, 4096, REQUIRED},
	{"num_experts_per_tok", NULL, INT, AT(n_experts_used), 0, 256, 0},
	{"intermediate_size", NULL, INT, AT(expert_dim), 8, 1 << 20, REQUIRED},
	{"shared_intermediate_size", NULL, INT, AT(shared_dim), 8, 1 << 20, REQUIRED},
	{0}};

/* Bamba has a list of attention layers. Rope rotates half of each head, and no layer has
 * experts. Settings from GGUF have layer_types and the rotated part already. */
static void spell_bamba(json_t *text)
{
	static const char list[] = "attn_layer_indices";
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	json_t *attends = json_object_get(text, list), *types, *v;
	size_t i;
	json_object_set(text, "shared_intermediate_size",
			json_object_get(text, "intermediate_size"));
	json_object_set_new(text, "num_local_experts", json_integer(0));
	if (!attends && json_object_get(text, "layer_types"))
		return;
	types = json_array();
	for (json_int_t l = 0; l < MIN(n, 10000); l++)
		json_array_append_new(types, json_string("linear_attention"));
	json_array_foreach(attends, i, v)
		if (!json_is_integer(v) || json_array_set_new(types,
				(size_t)json_integer_value(v), json_string("full_attention")))
			json_array_append_new(types, json_string("?")); /* is refused later */
	json_object_set_new(text, "layer_types", types);
	json_object_set_new(text, "position_embedding_type", json_string("rope"));
	json_object_set_new(text, "partial_rotary_factor", json_real(0.5));
}

static void granite_hybrid_spell(json_t *text)
{
	const char *model = json_string_value(json_object_get(text, "model_type"));
	if (model && strcmp(model, "bamba") == 0)
		spell_bamba(text);
	static const char *const types[][2] = {{"mamba", "linear_attention"},
					       {"mamba2", "linear_attention"},
					       {"attention", "full_attention"}};
	json_t *list = json_object_get(text, "layer_types"), *spelled = json_array(), *v;
	size_t i;
	if (!json_is_array(list))
		list = json_object_get(text, "layers_block_type");
	json_array_foreach(list, i, v) {
		const char *name = json_string_value(v);
		for (size_t k = 0; name && k < ARRAY_LEN(types); k++)
			if (strcmp(name, types[k][0]) == 0)
				name = types[k][1];
		json_array_append_new(spelled, json_string(name ? name : "?"));
	}
	if (json_is_array(list))
		json_object_set(text, "layer_types", spelled);
	json_decref(spelled);
	json_int_t heads = json_integer_value(json_object_get(text, "mamba_n_heads"));
	const json_t *by = json_object_get(text, "mamba_expand");
	const json_t *dim = json_object_get(text, "mamba_d_head");
	json_int_t width = json_integer_value(json_object_get(text, "hidden_size"));
	const char *own = json_string_value(dim);
	if ((!dim || (own && strcmp(own, "auto") == 0)) && heads > 0)
		json_object_set_new(text, "mamba_d_head", json_integer(
			(by ? json_integer_value(by) : 2) * width / heads));
	if (!json_object_get(text, "num_key_value_heads"))
		json_object_set(text, "num_key_value_heads",
				json_object_get(text, "num_attention_heads"));
}

/* Without experts, the shared expert becomes a dense feed-forward. */
static enum status read_experts(struct model_config *c, struct fail *fail)
{
	if (c->n_experts > 0)
		return c->n_experts_used ? OK : config_missing(fail, "num_experts_per_tok");
	c->n_experts_used = 0;
	c->ffn_dim = c->shared_dim;
	c->shared_dim = 0;
	return OK;
}

static enum status read_own(const json_t *text, struct arena *a, struct model_config *c,
			    struct fail *fail)
{
	static const char rope[] = "position_embedding_type";
	const json_t *v = jsonfile_get(text, rope);
	const char *kind = v ? json_string_value(v) : "nope";
	if (!kind || (strcmp(kind, "nope") != 0 && strcmp(kind, "rope") != 0))
		return config_unsupported(fail, rope, v);
	enum status st = model_ssm_check(text, c, fail);
	if (st != OK)
		return st;
	if (strcmp(kind, "nope") == 0) {
		c->is_unrotated = arena_alloc(a, (size_t)c->n_layers *
							 sizeof *c->is_unrotated);
		memset(c->is_unrotated, true, (size_t)c->n_layers);
	}
	return read_experts(c, fail);
}

/* Layers of type "linear_attention" are state spaces. Without layer_types all layers are. */
static enum status read_layers(const json_t *root, struct arena *a,
			       struct model_config *c, struct fail *fail)
{
	c->is_linear = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_linear);
	memset(c->is_linear, true, (size_t)c->n_layers);
	enum status st = config_linear_layers(root, "linear_attention", c, fail);
	return st == OK ? read_own(root, a, c, fail) : st;
}

static void granite_hybrid_fix(struct model_config *c)
{
	c->norm_topk = true;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_name gguf_names[] = {
	GGUF_SHARED_EXPERTS("shared_experts"),
	{0}};

/* Read the width of the feed-forward of a model without experts from its tensors, which have
 * the usual names. */
static void read_widths(struct gguf_model_reader *r)
{
	static const char key[] = "shared_intermediate_size";
	json_t *experts = json_object_get(r->config, "num_experts");
	json_t *shared = json_object_get(r->config, "shared_expert_intermediate_size");
	const struct tensor *gate =
		tensors_find(r->tensors, "model.layers.0.mlp.gate_proj.weight");
	json_object_set_new(r->config, "num_local_experts",
			    json_integer(json_integer_value(experts)));
	if (gate && gate->n_dims == 2)
		json_object_set_new(r->config, key, json_integer(gate->dim[0]));
	else if (shared)
		json_object_set(r->config, key, shared);
	json_object_del(r->config, "shared_expert_intermediate_size");
	if (gguf_model_known(r, "moe_intermediate_size") > 0)
		json_object_set(r->config, "intermediate_size",
				json_object_get(r->config, "moe_intermediate_size"));
	if (!json_object_get(r->config, "intermediate_size"))
		json_object_set(r->config, "intermediate_size",
				json_object_get(r->config, key));
}

static enum status granite_hybrid_read_gguf(struct gguf_model_reader *r)
{
	char name[96];
	int64_t n_rope = 0;
	const struct gguf_value *v;
	enum status st = gguf_model_read_types(r, "linear_attention");
	if (st == OK)
		st = model_ssm_read_gguf(r);
	if (st != OK)
		return st;
	v = gguf_model_key(r, "rope.scaling.finetuned", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n_rope)))
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "position_embedding_type",
			    json_string(n_rope ? "rope" : "nope"));
	read_widths(r);
	return OK;
}

const struct model_family model_family_granite_hybrid = {
	.settings = settings, .spell = granite_hybrid_spell, .layers = read_layers,
	.fix = granite_hybrid_fix, .gguf_names = gguf_names, .of_layers = "num_key_value_heads",
	.read_gguf = granite_hybrid_read_gguf};
