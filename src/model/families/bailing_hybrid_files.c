/* SPDX-License-Identifier: Apache-2.0
 *
 * Ling 3 (bailing_hybrid). Published files say how many layers make a group, whose last one has
 * latent attention. Files that Hugging Face Transformers saves have head_dim for what rotates, and
 * the size of Kimi delta attention's heads apart. Sources: configuration_bailing_hybrid.py of
 * Transformers; llama.cpp's converter.
 */
#include "model/model_family.h"

#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"linear_num_heads", NULL, INT, AT(delta.k_heads), 1, 1024, REQUIRED},
	{"linear_head_dim", NULL, INT, AT(delta.k_dim), 4, 256, REQUIRED},
	{"linear_conv_kernel_dim", NULL, INT, AT(delta.conv_width), 2, 8, REQUIRED},
	{"kda_lower_bound", NULL, FLOAT, AT(delta.g_min), -1e3, -1e-3, -5},
	{0}};

static const char types_key[] = "layer_types", group_key[] = "layer_group_size";
static const char *const limit_keys[] = {"expert_swiglu_limit_list",
					 "share_expert_swiglu_limit_list"};
static const char shared_key[] = "shared_expert_intermediate_size";

static void spell_default(json_t *text, const char *key, const char *from)
{
	if (!jsonfile_get(text, key))
		config_rename(text, from, key);
}

static void spell_layers(json_t *text)
{
	json_int_t n = json_integer_value(json_object_get(text, "num_hidden_layers"));
	json_int_t group = json_integer_value(json_object_get(text, group_key));
	if (jsonfile_get(text, types_key) || group < 1 || n < 1 || n > 1024 || n % group)
		return;
	json_t *types = json_array();
	for (json_int_t i = 0; i < n; i++)
		json_array_append_new(types, json_string((i + 1) % group ? "linear_attention"
									 : "full_attention"));
	json_object_set_new(text, types_key, types);
}

static void bailing_hybrid_spell(json_t *text)
{
	static const char *const names[][2] = {
		{"model_max_length", "max_position_embeddings"},
		{"num_experts", "n_routed_experts"}, {"num_local_experts", "n_routed_experts"},
		{"num_experts_per_token", "num_experts_per_tok"},
		{"num_shared_experts", "n_shared_experts"}, {"num_expert_group", "n_group"},
		{"moe_renormalize", "norm_topk_prob"}, {"score_function", "scoring_func"},
		{"moe_shared_expert_intermediate_size", shared_key}};
	json_t *rope = json_object_get(text, "rope_parameters");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		config_rename(text, names[i][0], names[i][1]);
	spell_default(text, "linear_head_dim", "head_dim");
	spell_default(text, "linear_num_heads", "num_attention_heads");
	spell_default(text, "linear_conv_kernel_dim", "short_conv_kernel_size");
	spell_layers(text);
	/* All of qk_rope_head_dim rotates, whatever share of head_dim that is. */
	json_object_del(text, "partial_rotary_factor");
	json_object_del(rope, "partial_rotary_factor");
	/* It is said of keys and queries of Kimi delta attention, which are always of length 1. */
	json_object_del(text, "use_qk_norm");
}

static enum status read_layers(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	if (!jsonfile_get(text, types_key))
		return fail_at(fail, E_UNSUPPORTED, group_key, FILE_NAME ": %s does not divide "
			       "num_hidden_layers, and there are no %s", group_key, types_key);
	c->delta.v_heads = c->delta.k_heads;
	c->delta.v_dim = c->delta.k_dim;
	if (c->delta.k_dim % 4)
		return fail_at(fail, E_UNSUPPORTED, "head_dim", FILE_NAME
			       ": heads of %d are no multiples of 4", c->delta.k_dim);
	c->is_linear = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_linear);
	return config_linear_layers(text, "linear_attention", c, fail);
}

static enum status bailing_hybrid_read(const json_t *text, struct arena *a,
				       struct model_config *c, struct fail *fail)
{
	return step3_files_limits(text, limit_keys, a, c, fail);
}

static enum status bailing_hybrid_check(const json_t *text, struct arena *a,
					struct model_config *c, struct fail *fail)
{
	static const char *const off[] = {"use_kda_lora", "use_mla_nope", "use_nGPT", "value_norm",
					  "up_proj_norm", "scale_router_input", "pregate_inference",
					  "norm_head", "use_bias", "use_qkv_bias"};
	static const char lora[] = "no_kda_lora", bound[] = "kda_safe_gate";
	static const char gates[] = "gated_attention_proj_granularity_type";
	const json_t *v = jsonfile_get(text, gates);
	(void)a;
	for (size_t i = 0; i < ARRAY_LEN(off); i++)
		if (json_is_true(jsonfile_get(text, off[i])))
			return config_unsupported(fail, off[i], jsonfile_get(text, off[i]));
	if (json_is_false(jsonfile_get(text, lora)))
		return config_unsupported(fail, lora, jsonfile_get(text, lora));
	if (v && (!json_is_string(v) || strcmp(json_string_value(v), "head_wise") != 0))
		return config_unsupported(fail, gates, v);
	v = jsonfile_get(text, shared_key);
	if (v && json_integer_value(v) != c->shared_dim)
		return config_unsupported(fail, shared_key, v);
	if (json_is_false(jsonfile_get(text, bound)))
		c->delta.g_min = 0;
	return OK;
}

static void bailing_hybrid_fix(struct model_config *c)
{
	c->delta.is_full = true;
	c->mla.has_gate = true;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	{"kda.head_dim", "linear_head_dim", true, false},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", true, false},
	{"kda.gate_lower_bound", "kda_lower_bound", true, true},
	{0}};

static const struct gguf_name gguf_names[] = {
	{"ssm_conv1d_q", "self_attn.q_conv1d"}, {"ssm_conv1d_k", "self_attn.k_conv1d"},
	{"ssm_conv1d_v", "self_attn.v_conv1d"}, {"ssm_f_a", "self_attn.f_proj"},
	{"ssm_g_a", "self_attn.g_proj"}, {"attn_gate", "self_attn.g_proj"},
	{"ssm_beta", "self_attn.b_proj"}, {"ssm_dt.bias", "self_attn.dt_bias"},
	{"ssm_a", "self_attn.A_log"}, {"ssm_norm", "self_attn.o_norm"}, {0}};

/* Both kinds of attention have as many heads. */
static enum status bailing_hybrid_read_gguf(struct gguf_model_reader *r)
{
	enum status st = step3_files_gguf_limits(r, limit_keys);
	if (st != OK)
		return st;
	json_object_set(r->config, "linear_num_heads",
			json_object_get(r->config, "num_attention_heads"));
	return gguf_model_read_types(r, "linear_attention");
}

const struct model_family model_family_bailing_hybrid = {
	.settings = settings, .reads = "shared_expert_intermediate_size",
	.spell = bailing_hybrid_spell, .layers = read_layers, .read = bailing_hybrid_read,
	.check = bailing_hybrid_check, .fix = bailing_hybrid_fix, .gguf_keys = gguf_keys,
	.gguf_names = gguf_names,
	.gguf_reads = "swiglu_clamp_exp swiglu_clamp_shexp kda.safe_gate",
	.of_layers = "num_key_value_heads", .read_gguf = bailing_hybrid_read_gguf};
