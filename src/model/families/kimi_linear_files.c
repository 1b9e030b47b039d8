/* SPDX-License-Identifier: Apache-2.0
 *
 * Kimi-Linear. Published files have settings of Kimi delta attention in an object of their own,
 * linear_attn_config, and lists of layers that count from 1. Sources: configuration_kimi_linear.py
 * of Hugging Face Transformers; llama.cpp's converter.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"linear_num_heads", NULL, INT, AT(delta.k_heads), 1, 1024, REQUIRED},
	{"linear_head_dim", NULL, INT, AT(delta.k_dim), 4, 256, REQUIRED},
	{"linear_conv_kernel_dim", NULL, INT, AT(delta.conv_width), 2, 8, REQUIRED},
	{0}};

static const char own[] = "linear_attn_config", types_key[] = "layer_types";

/* Writes `type` for the layers of a list. */
static void spell_list(const json_t *list, const char *type, json_t *types)
{
	const json_t *v;
	size_t i;
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
		if (json_is_integer(v) && json_integer_value(v) > 0)
			json_array_set_new(types, (size_t)json_integer_value(v) - 1,
					   json_string(type));
}

static void spell_layers(json_t *text, const json_t *config)
{
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	const json_t *full = jsonfile_get(config, "full_attn_layers");
	const json_t *delta = jsonfile_get(config, "kda_layers");
	if (jsonfile_get(text, types_key) || !full || !delta || n < 1 || n > 1024)
		return;
	json_t *types = json_array();
	for (json_int_t i = 0; i < n; i++)
		json_array_append_new(types, json_string("neither"));
	spell_list(full, "full_attention", types);
	spell_list(delta, "linear_attention", types);
	json_object_set_new(text, types_key, types);
}

void kimi_linear_files_inner(json_t *text)
{
	static const char *const inner[][2] = {
		{"head_dim", "linear_head_dim"}, {"num_heads", "linear_num_heads"},
		{"short_conv_kernel_size", "linear_conv_kernel_dim"}};
	const json_t *config = jsonfile_get(text, own);
	for (size_t i = 0; i < ARRAY_LEN(inner); i++) {
		const json_t *v = jsonfile_get(config, inner[i][0]);
		if (v)
			json_object_set(text, inner[i][1], (json_t *)(uintptr_t)v);
	}
}

static void kimi_linear_spell(json_t *text)
{
	static const char *const names[][2] = {
		{"model_max_length", "max_position_embeddings"},
		{"num_experts", "n_routed_experts"}, {"num_local_experts", "n_routed_experts"},
		{"num_experts_per_token", "num_experts_per_tok"},
		{"num_shared_experts", "n_shared_experts"}, {"num_expert_group", "n_group"},
		{"moe_renormalize", "norm_topk_prob"}};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		config_rename(text, names[i][0], names[i][1]);
	kimi_linear_files_inner(text);
	spell_layers(text, jsonfile_get(text, own));
}

/* Refuses keys of linear_attn_config that are not known: each would change the layer. */
static enum status check_inner(const json_t *text, struct fail *fail)
{
	static const char known[] = "head_dim num_heads short_conv_kernel_size full_attn_layers "
				    "kda_layers";
	const json_t *config = jsonfile_get(text, own);
	const char *key;
	json_t *v;
	if (config && !json_is_object(config))
		return config_wrong(fail, own, config, "an object");
	json_object_foreach((json_t *)(uintptr_t)config, key, v)
		if (!json_is_null(v) && !json_is_false(v) && !model_family_has(known, key))
			return config_unsupported(fail, key, v);
	return OK;
}

enum status kimi_linear_files_delta(const json_t *text, struct arena *a, struct model_config *c,
				    struct fail *fail)
{
	c->delta.v_heads = c->delta.k_heads;
	c->delta.v_dim = c->delta.k_dim;
	if (c->delta.k_dim % 4)
		return fail_at(fail, E_UNSUPPORTED, "linear_head_dim", FILE_NAME
			       ": heads of %d are no multiples of 4", c->delta.k_dim);
	c->is_linear = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_linear);
	return config_linear_layers(text, "linear_attention", c, fail);
}

static enum status read_layers(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	const json_t *types = jsonfile_get(text, types_key);
	enum status st = check_inner(text, fail);
	if (st != OK)
		return st;
	if (!types)
		return config_missing(fail, types_key);
	for (size_t i = 0; i < json_array_size(types); i++) {
		const char *type = json_string_value(json_array_get(types, i));
		if (type && strcmp(type, "neither") == 0)
			return fail_at(fail, E_FORMAT, own, FILE_NAME ": %s: layer %zu is neither "
				       "in full_attn_layers nor in kda_layers", own, i + 1);
	}
	st = kimi_linear_files_delta(text, a, c, fail);
	/* Nothing rotates: all pairs stand still, and in their places. */
	c->mla.is_interleaved = false;
	c->ropes[0] = (struct rope){.kind = ROPE_PART, .theta = c->ropes[0].theta, .factor = 1};
	return st;
}

static enum status kimi_linear_check(const json_t *text, struct arena *a, struct model_config *c,
				     struct fail *fail)
{
	static const char nope[] = "mla_use_nope", router[] = "moe_router_activation_func";
	static const char grouped[] = "use_grouped_topk";
	const json_t *v = jsonfile_get(text, router);
	(void)a;
	if (json_is_false(jsonfile_get(text, nope)))
		return config_unsupported(fail, nope, jsonfile_get(text, nope));
	if (v && (!json_is_string(v) || strcmp(json_string_value(v), "sigmoid") != 0))
		return config_unsupported(fail, router, v);
	if (c->n_groups > 1 && json_is_false(jsonfile_get(text, grouped)))
		return config_unsupported(fail, grouped, jsonfile_get(text, grouped));
	return OK;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"kda.head_dim", "linear_head_dim", true, false},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", true, false},
	{0}};

static const struct gguf_name gguf_names[] = {
	{"ssm_conv1d_q", "self_attn.q_conv1d"}, {"ssm_conv1d_k", "self_attn.k_conv1d"},
	{"ssm_conv1d_v", "self_attn.v_conv1d"}, {"ssm_f_a", "self_attn.f_a_proj"},
	{"ssm_f_b", "self_attn.f_b_proj"}, {"ssm_g_a", "self_attn.g_a_proj"},
	{"ssm_g_b", "self_attn.g_b_proj"}, {"ssm_beta", "self_attn.b_proj"},
	{"ssm_dt.bias", "self_attn.dt_bias"}, {"ssm_a", "self_attn.A_log"},
	{"ssm_norm", "self_attn.o_norm"}, {0}};

/* Both kinds of attention have as many heads. llama.cpp always scales the weights of the chosen
 * experts to sum 1. */
static enum status kimi_linear_read_gguf(struct gguf_model_reader *r)
{
	json_object_set(r->config, "linear_num_heads",
			json_object_get(r->config, "num_attention_heads"));
	json_object_set_new(r->config, "moe_renormalize", json_true());
	return gguf_model_read_types(r, "linear_attention");
}

const struct model_family model_family_kimi_linear = {
	.settings = settings, .spell = kimi_linear_spell, .layers = read_layers,
	.check = kimi_linear_check, .gguf_keys = gguf_keys, .gguf_names = gguf_names,
	.of_layers = "num_key_value_heads", .read_gguf = kimi_linear_read_gguf};
