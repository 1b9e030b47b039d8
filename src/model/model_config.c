/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json is a bag of keys from many authors. Three tables decide what happens to a
 * key:
 *
 *   archs.def  the model_types, and which groups of keys each one uses
 *   settings   keys whose value is read: its place, range and default
 *   neutral    keys that would change the result: refused by name, unless the value
 *              is one that has no effect
 *
 * A key in no table is taken to be harmless (dropout, cache switches, …). A new
 * architecture needs a row in archs.def, and rows here for its new keys.
 * model_config_rope.c reads the rope settings.
 */
#include "model/model_config_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_arch.h"

const struct model_arch model_archs[] = {
#define ARCH(type, ident, ...) {.model_type = type, __VA_ARGS__},
#include "model/archs.def"
#undef ARCH
};
const size_t model_n_archs = ARRAY_LEN(model_archs);

enum config_kind { INT, FLOAT, BOOL };
#define AT(field) offsetof(struct model_config, field)

static const struct setting {
	const char *key, *alias; /* alias: second spelling of the key, or NULL */
	uint64_t keys;
	enum config_kind kind;
	size_t at;
	double min, max;
	double fallback; /* default; REQUIRED: the key must be present */
} settings[] = {
	{"num_hidden_layers", NULL, KEYS_ALL, INT, AT(n_layers), 1, 1024, REQUIRED},
	{"hidden_size", NULL, KEYS_ALL, INT, AT(d_model), 8, 1 << 16, REQUIRED},
	{"num_attention_heads", NULL, KEYS_ALL, INT, AT(n_heads), 1, 1024, REQUIRED},
	{"num_key_value_heads", NULL, KEYS_ALL, INT, AT(n_kv_heads), 1, 1024,
	 REQUIRED},
	/* 0: computed below as hidden_size / num_attention_heads */
	{"head_dim", NULL, KEYS_HEADS, INT, AT(head_dim), 2, 1024, 0},
	{"intermediate_size", NULL, KEYS_FFN, INT, AT(ffn_dim), 8, 1 << 20, REQUIRED},
	{"intermediate_size", NULL, KEYS_OSS | KEYS_LOCAL, INT, AT(expert_dim), 8,
	 1 << 20, REQUIRED},
	{"vocab_size", NULL, KEYS_ALL, INT, AT(n_vocab), 2, 1 << 24, REQUIRED},
	{"max_position_embeddings", NULL, KEYS_ALL, INT, AT(max_ctx), 1, 1 << 27,
	 REQUIRED},
	{"rms_norm_eps", "layer_norm_eps", KEYS_ALL, FLOAT, AT(norm_eps), 1e-12, 1e-2, REQUIRED},
	{"tie_word_embeddings", NULL, KEYS_ALL, BOOL, AT(tied_embeddings), 0, 1, 0},
	{"attention_bias", NULL, KEYS_BIAS, BOOL, AT(o_bias), 0, 1, 0},
	{"mlp_bias", NULL, KEYS_MLP_BIAS, BOOL, AT(mlp_bias), 0, 1, 0},
	{"attention_bias", NULL, KEYS_OUT_BIAS, BOOL, AT(qkv_bias), 0, 1, 1},
	{"attention_out_bias", NULL, KEYS_OUT_BIAS, BOOL, AT(o_bias), 0, 1, 0},
	{"logit_scale", NULL, KEYS_LOGIT_SCALE, FLOAT, AT(logit_scale), 1e-6, 1e3, 1},
	/* set_scales distributes these four. */
	{"embedding_multiplier", NULL, KEYS_SCALES, FLOAT, AT(embed_scale), 1e-3, 1e6, 1},
	{"attention_multiplier", NULL, KEYS_SCALES, FLOAT, AT(query_scalar), 1e-6, 1e3, 1},
	{"residual_multiplier", NULL, KEYS_SCALES, FLOAT, AT(residual_scale), 1e-3, 1e3, 1},
	{"logits_scaling", NULL, KEYS_SCALES, FLOAT, AT(logit_scale), 1e-3, 1e6, 1},
	{"bos_token_id", NULL, KEYS_ALL, INT, AT(bos_id), 0, 1 << 24, -1},
	{"num_experts", "num_local_experts", KEYS_EXPERTS | KEYS_OSS | KEYS_LOCAL, INT,
	 AT(n_experts), 1, 4096, REQUIRED},
	{"n_routed_experts", NULL, KEYS_GROUPED | KEYS_DEEPSEEK4, INT, AT(n_experts), 1, 4096,
	 REQUIRED},
	/* a number of experts; converted to a width below */
	{"n_shared_experts", NULL, KEYS_GROUPED, INT, AT(shared_dim), 0, 64, REQUIRED},
	{"shared_expert_intermediate_size", NULL, KEYS_SHARED, INT, AT(shared_dim), 8,
	 1 << 20, REQUIRED},
	{"n_group", NULL, KEYS_GROUPED, INT, AT(n_groups), 1, 4096, REQUIRED},
	{"topk_group", NULL, KEYS_GROUPED, INT, AT(n_groups_used), 1, 4096, REQUIRED},
	{"routed_scaling_factor", NULL, KEYS_GROUPED, FLOAT, AT(routed_scale), 1e-3, 1e3,
	 REQUIRED},
	{"use_qk_norm", NULL, KEYS_GROUPED, BOOL, AT(qk_norm), 0, 1, 0},
	{"num_experts_per_tok", "experts_per_token", KEYS_EXPERTS | KEYS_GROUPED | KEYS_OSS |
	 KEYS_LOCAL | KEYS_DEEPSEEK4, INT, AT(n_experts_used), 1, 256, REQUIRED},
	{"moe_intermediate_size", NULL, KEYS_EXPERTS | KEYS_GROUPED | KEYS_DEEPSEEK4, INT,
	 AT(expert_dim), 8, 1 << 20, REQUIRED},
	{"norm_topk_prob", NULL, KEYS_EXPERTS, BOOL, AT(norm_topk), 0, 1, 0},
	{"norm_topk_prob", NULL, KEYS_SHARED, BOOL, AT(norm_topk), 0, 1, 1},
	{"swiglu_alpha", NULL, KEYS_OSS, FLOAT, AT(act.alpha), 0.1, 10, 1.702},
	{"swiglu_limit", NULL, KEYS_OSS, FLOAT, AT(act.limit), 0.1, 1000, 7},
	{"query_pre_attn_scalar", NULL, KEYS_QUERY_SCALE, FLOAT, AT(query_scalar), 1, 1e6,
	 REQUIRED},
	/* used without layer_types: layer i has a window iff (i + 1) % pattern != 0. 0 is for
	 * models without windows. */
	{"sliding_window_pattern", "_sliding_window_pattern", KEYS_WINDOW_LIST, INT,
	 AT(window_pattern), 0, 1024, 0},
	{"linear_num_key_heads", NULL, KEYS_DELTA, INT, AT(delta.k_heads), 1, 1024,
	 REQUIRED},
	{"linear_num_value_heads", NULL, KEYS_DELTA, INT, AT(delta.v_heads), 1, 1024,
	 REQUIRED},
	{"linear_key_head_dim", NULL, KEYS_DELTA, INT, AT(delta.k_dim), 4, 256, REQUIRED},
	{"linear_value_head_dim", NULL, KEYS_DELTA, INT, AT(delta.v_dim), 4, 256, REQUIRED},
	{"linear_conv_kernel_dim", NULL, KEYS_DELTA, INT, AT(delta.conv_width), 2, 8, REQUIRED},
	{"conv_L_cache", NULL, KEYS_CONV, INT, AT(delta.conv_width), 2, 8, REQUIRED},
	{"q_lora_rank", NULL, KEYS_MLA, INT, AT(q_lora), 8, 1 << 14, 0},
	{"kv_lora_rank", NULL, KEYS_MLA, INT, AT(mla.kv_lora), 8, 1024, REQUIRED},
	{"qk_nope_head_dim", NULL, KEYS_MLA, INT, AT(mla.nope_dim), 1, 1024, REQUIRED},
	{"qk_rope_head_dim", NULL, KEYS_MLA, INT, AT(mla.rope_dim), 2, 1024, REQUIRED},
	{"v_head_dim", NULL, KEYS_MLA, INT, AT(mla.v_dim), 1, 1024, REQUIRED},
	{"rope_interleave", NULL, KEYS_MLA, BOOL, AT(mla.is_interleaved), 0, 1, 1},
	{"norm_topk_prob", NULL, KEYS_GROUPED, BOOL, AT(norm_topk), 0, 1, 1},
	{"mamba_n_heads", NULL, KEYS_SPACE | KEYS_NEMOTRON, INT, AT(delta.v_heads), 1, 1024,
	 REQUIRED},
	{"mamba_n_groups", NULL, KEYS_SPACE | KEYS_NEMOTRON, INT, AT(delta.k_heads), 1, 1024, 1},
	{"mamba_d_state", NULL, KEYS_SPACE | KEYS_NEMOTRON, INT, AT(delta.k_dim), 4, 256, 256},
	{"mamba_d_head", NULL, KEYS_SPACE | KEYS_NEMOTRON, INT, AT(delta.v_dim), 4, 1024, REQUIRED},
	{"mamba_d_conv", NULL, KEYS_SPACE | KEYS_NEMOTRON, INT, AT(delta.conv_width), 2, 8, 4},
	{"mamba_conv_bias", NULL, KEYS_SPACE | KEYS_NEMOTRON, BOOL, AT(delta.has_conv_bias), 0,
		1, 1},
	{"intermediate_size", NULL, KEYS_NEMOTRON, INT, AT(ffn_dim), 0, 1 << 20, 0},
	{"n_routed_experts", NULL, KEYS_NEMOTRON, INT, AT(n_experts), 0, 4096, 0},
	{"num_experts_per_tok", NULL, KEYS_NEMOTRON, INT, AT(n_experts_used), 0, 256, 0},
	{"moe_intermediate_size", NULL, KEYS_NEMOTRON, INT, AT(expert_dim), 0, 1 << 20, 0},
	{"moe_shared_expert_intermediate_size", NULL, KEYS_NEMOTRON, INT, AT(shared_dim), 0,
	 1 << 20, 0},
	{"n_group", NULL, KEYS_NEMOTRON, INT, AT(n_groups), 1, 4096, 1},
	{"topk_group", NULL, KEYS_NEMOTRON, INT, AT(n_groups_used), 1, 4096, 1},
	{"routed_scaling_factor", NULL, KEYS_NEMOTRON, FLOAT, AT(routed_scale), 1e-3, 1e3, 1},
	{"norm_topk_prob", NULL, KEYS_NEMOTRON, BOOL, AT(norm_topk), 0, 1, 1},
	{"moe_latent_size", NULL, KEYS_NEMOTRON, INT, AT(latent_dim), 8, 1 << 16, 0},
	{"num_local_experts", NULL, KEYS_SPACE, INT, AT(n_experts), 0, 4096, REQUIRED},
	{"num_experts_per_tok", NULL, KEYS_SPACE, INT, AT(n_experts_used), 0, 256, 0},
	{"intermediate_size", NULL, KEYS_SPACE, INT, AT(expert_dim), 8, 1 << 20, REQUIRED},
	{"shared_intermediate_size", NULL, KEYS_SPACE, INT, AT(shared_dim), 8, 1 << 20,
	 REQUIRED},
	{"shared_intermediate_size", NULL, KEYS_BESIDE, INT, AT(shared_dim), 0, 1 << 20, 0},
	{"moe_num_experts", NULL, KEYS_ERNIE, INT, AT(n_experts), 1, 4096, REQUIRED},
	{"moe_k", NULL, KEYS_ERNIE, INT, AT(n_experts_used), 1, 256, REQUIRED},
	{"moe_intermediate_size", NULL, KEYS_ERNIE, INT, AT(expert_dim), 8, 1 << 20, REQUIRED},
	/* a number of experts; config_ernie_read converts it to a width */
	{"moe_num_shared_experts", NULL, KEYS_ERNIE, INT, AT(shared_dim), 0, 64, 2},
	{"global_head_dim", NULL, KEYS_GEMMA4, INT, AT(gemma4.head_dim), 2, 1024, 512},
	{"num_global_key_value_heads", NULL, KEYS_GEMMA4, INT, AT(gemma4.kv_heads), 1, 1024, 0},
	{"attention_k_eq_v", NULL, KEYS_GEMMA4, BOOL, AT(gemma4.keys_are_values), 0, 1, 0},
	{"num_kv_shared_layers", NULL, KEYS_GEMMA4, INT, AT(gemma4.n_kv_shared), 0, 1024, 0},
	{"use_double_wide_mlp", NULL, KEYS_GEMMA4, BOOL, AT(gemma4.wide_mlp), 0, 1, 0},
	{"hidden_size_per_layer_input", NULL, KEYS_GEMMA4, INT, AT(gemma4.embed_dim), 0, 1 << 14,
	 256},
	{"vocab_size_per_layer_input", NULL, KEYS_GEMMA4, INT, AT(gemma4.embed_rows), 2, 1 << 24,
	 262144},
	{"final_logit_softcapping", NULL, KEYS_GEMMA4, FLOAT, AT(logit_cap), 1e-3, 1e6, 0},
	{"enable_moe_block", NULL, KEYS_GEMMA4, BOOL, AT(gemma4.has_experts), 0, 1, 0},
	{"num_experts", NULL, KEYS_GEMMA4, INT, AT(n_experts), 1, 4096, 0},
	{"top_k_experts", NULL, KEYS_GEMMA4, INT, AT(n_experts_used), 1, 256, 0},
	{"moe_intermediate_size", NULL, KEYS_GEMMA4, INT, AT(expert_dim), 8, 1 << 20, 0},
	{"hc_count", NULL, KEYS_QWEN4, INT, AT(streams.count), 2, 16, 4},
	{"hc_lowrank", NULL, KEYS_QWEN4, INT, AT(streams.rank), 8, 1 << 14, 320},
	{"indexer_n_heads", NULL, KEYS_QWEN4, INT, AT(index.heads), 1, 256, REQUIRED},
	{"indexer_head_dim", NULL, KEYS_QWEN4, INT, AT(index.dim), 8, 512, REQUIRED},
	{"indexer_budget", NULL, KEYS_QWEN4, INT, AT(index.budget), 1, 1 << 20, REQUIRED},
	{"indexer_compress_ratio", NULL, KEYS_QWEN4, INT, AT(index.ratio), 1, 256, REQUIRED},
	{"index_n_heads", NULL, KEYS_INDEX, INT, AT(index.heads), 1, 256, REQUIRED},
	{"index_head_dim", NULL, KEYS_INDEX, INT, AT(index.dim), 8, 512, REQUIRED},
	{"index_topk", NULL, KEYS_INDEX, INT, AT(index.budget), 1, 1 << 20, REQUIRED},
	{"ple_embed_dim", NULL, KEYS_QWEN4, INT, AT(ngram.dim), 8, 1 << 16, 0},
	{"ple_conv_kernel_size", NULL, KEYS_QWEN4, INT, AT(ngram.taps), 2, 8, 4},
	{"ngram_size", NULL, KEYS_QWEN4, INT, AT(ngram.size), 2, MODEL_MAX_NGRAM, 3},
	{"heads_per_ngram", NULL, KEYS_QWEN4, INT, AT(ngram.heads), 1, 64, 8},
	{"ngram_vocab_size_base", NULL, KEYS_QWEN4, INT, AT(ngram.vocab), 2, 1 << 26,
	 20000000},
	{"seed", NULL, KEYS_QWEN4, INT, AT(ngram.seed), 0, INT32_MAX, 1234},
	{"use_qk_norm", NULL, KEYS_LLAMA4, BOOL, AT(llama4.has_norms), 0, 1, 1},
	{"floor_scale", NULL, KEYS_LLAMA4, INT, AT(llama4.late_every), 1, 1 << 27, 8192},
	{"attn_scale", NULL, KEYS_LLAMA4, FLOAT, AT(llama4.late_scale), 0, 10, 0.1},
	{"q_lora_rank", NULL, KEYS_DEEPSEEK4, INT, AT(q_lora), 8, 1 << 14, REQUIRED},
	{"o_lora_rank", NULL, KEYS_DEEPSEEK4, INT, AT(compress.o_lora), 8, 1 << 14, REQUIRED},
	{"o_groups", NULL, KEYS_DEEPSEEK4, INT, AT(compress.o_groups), 1, 1024, REQUIRED},
	/* a number of shared experts: only 1 is supported */
	{"n_shared_experts", NULL, KEYS_DEEPSEEK4, INT, AT(shared_dim), 1, 1, 1},
	{"routed_scaling_factor", NULL, KEYS_DEEPSEEK4, FLOAT, AT(routed_scale), 1e-3, 1e3, 1.5},
	{"swiglu_limit", NULL, KEYS_DEEPSEEK4, FLOAT, AT(act.limit), 1e-3, 1e4, 10},
	{"hc_mult", NULL, KEYS_DEEPSEEK4, INT, AT(streams.count), 2, 16, 4},
	{"hc_sinkhorn_iters", NULL, KEYS_DEEPSEEK4, INT, AT(streams.iters), 1, 1000, 20},
	{"hc_eps", NULL, KEYS_DEEPSEEK4, FLOAT, AT(streams.eps), 1e-12, 1e-2, 1e-6},
	{"index_n_heads", NULL, KEYS_DEEPSEEK4, INT, AT(index.heads), 1, 256, REQUIRED},
	{"index_head_dim", NULL, KEYS_DEEPSEEK4, INT, AT(index.dim), 8, 512, REQUIRED},
	/* counts blocks, not positions */
	{"index_topk", NULL, KEYS_DEEPSEEK4, INT, AT(index.budget), 1, 1 << 20, REQUIRED},
	{"decoder_sparse_step", NULL, KEYS_EXPERTS, INT, AT(sparse_step), 1, 1024, 1},
};

/* allowed: JSON values, separated by blanks, that have no effect. A key that is null or absent
 * is always accepted. */
static const struct {
	const char *key, *allowed;
	uint64_t unless; /* groups of keys whose architectures read this key */
} neutral[] = {
	{"attention_bias", "false", KEYS_BIAS | KEYS_OUT_BIAS},
	{"attention_out_bias", "false", KEYS_OUT_BIAS},
	{"attn_output_gate", "true", 0},
	{"moe_layer_freq", "1", 0},
	{"mlp_bias", "false", KEYS_MLP_BIAS},
	{"lm_head_bias", "false", 0},
	{"use_sliding_window", "false", KEYS_WINDOW_SOME},
	{"partial_rotary_factor", "1 1.0", KEYS_PARTIAL},
	{"scoring_func", "\"softmax\"", KEYS_GROUPED | KEYS_SIGMOID | KEYS_DEEPSEEK4},
	{"use_routing_bias", "true", 0},
	{"qk_norm_type", "\"per_layer\"", 0},
	{"shared_intermediate_size", "0", KEYS_SPACE | KEYS_BESIDE},
	{"mamba_proj_bias", "false", 0},
	{"mamba_hidden_act", "\"silu\"", 0},
	{"use_bias", "false", 0},
	{"normalization_function", "\"rmsnorm\"", 0},
	{"scoring_func", "\"sigmoid\"", KEYS_EXPERTS | KEYS_DEEPSEEK4},
	{"topk_method", "\"noaux_tc\"", 0},
	{"attn_logit_softcapping", "", 0},
	{"final_logit_softcapping", "", KEYS_GEMMA4},
	{"logit_scale", "1 1.0", KEYS_LOGIT_SCALE},
	{"rotary_pct", "1 1.0", 0}, {"use_gated_activation", "true", 0},
	{"use_parallel_block", "true", 0},
	{"logits_scaling", "1 1.0", KEYS_SCALES},
	{"embedding_multiplier", "1 1.0", KEYS_SCALES},
	{"residual_multiplier", "1 1.0", KEYS_SCALES},
	{"attention_multiplier", "", KEYS_SCALES},
	{"query_pre_attn_scalar", "", KEYS_QUERY_SCALE},
	{"rope_local_base_freq", "", KEYS_LOCAL_ROPE},
	{"use_bidirectional_attention", "false \"vision\"", KEYS_QUERY_SCALE}, /* alike for text */
	{"shared_expert_intermediate_size", "0", KEYS_SHARED},
	{"n_shared_experts", "0", KEYS_GROUPED | KEYS_NEMOTRON | KEYS_DEEPSEEK4},
	{"n_group", "1", KEYS_GROUPED | KEYS_NEMOTRON},
	{"topk_group", "1", KEYS_GROUPED | KEYS_NEMOTRON},
	{"routed_scaling_factor", "1 1.0", KEYS_GROUPED | KEYS_NEMOTRON | KEYS_DEEPSEEK4},
	{"output_gate_type", "\"swish\" \"silu\"", KEYS_QWEN4},
	{"indexer_kv_heads", "1", 0},
	{"index_topk", "", KEYS_INDEX | KEYS_DEEPSEEK4},
	{"clip_qkv", "", 0},
	{"conv_bias", "false", 0},
	{"use_expert_bias", "true", 0},
	{"qk_layernorm", "false", 0},
	{"attention_chunk_size", "", KEYS_LLAMA4},
	{"no_rope_layers", "[]", KEYS_NO_ROPE},
	{"no_rope_layer_interval", "0", KEYS_NO_ROPE},
	{"scale_emb", "1 1.0", 0},
	{"scale_depth", "", 0}, {"dim_model_base", "", 0}, {"use_cla", "false", 0},
	{"alibi", "false", 0}, {"use_alibi", "false", 0}, {"activation_sparsity_pattern", "", 0},
	{"apply_residual_connection_post_layernorm", "false", 0},
	{"num_kv_shared_layers", "0", KEYS_GEMMA4},
	{"parallel_attn", "false", 0},
	{"use_parallel_residual", "false", 0},
	{"pruned_heads", "{}", 0},
	{"is_encoder_decoder", "false", 0}, {"is_causal", "true", 0},
	{"add_cross_attention", "false", 0},
};

enum status config_missing(struct fail *fail, const char *key)
{
	return fail_at(fail, E_MISSING, key, FILE_NAME ": %s is missing", key);
}

enum status config_wrong(struct fail *fail, const char *key, const json_t *v,
			 const char *want)
{
	return fail_at(fail, E_FORMAT, key, FILE_NAME ": %s is %s, not %s", key,
		       jsonfile_type(v), want);
}

/* The value as JSON text, shortened for a message. */
static const char *spelled(const json_t *v, char buf[64])
{
	char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	snprintf(buf, 64, "%s", text ? text : "?");
	free(text);
	return buf;
}

enum status config_unsupported(struct fail *fail, const char *key,
			       const json_t *v)
{
	char buf[64];
	return fail_at(fail, E_UNSUPPORTED, key,
		       FILE_NAME ": %s %s is not supported", key, spelled(v, buf));
}

/* --- architecture --------------------------------------------------------- */

static const struct model_arch *arch_find(const char *model_type)
{
	for (size_t i = 0; i < model_n_archs; i++)
		if (strcmp(model_archs[i].model_type, model_type) == 0)
			return &model_archs[i];
	return NULL;
}

/* True if `word` is one of `words`, which are separated by blanks. */
static bool is_word(const char *word, const char *words)
{
	size_t n = strlen(word);
	for (const char *p = words; n && (p = strstr(p, word)); p++)
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

const char *model_arch_needs(const char *name)
{
	static const struct {
		const char *names, *needs;
	} missing[] = {
#define MISSING(names, needs) {names, needs},
#include "model/archs_missing.def"
#undef MISSING
	};
	for (size_t i = 0; i < ARRAY_LEN(missing); i++)
		if (is_word(name, missing[i].names))
			return missing[i].needs;
	return NULL;
}

/* True if row i is a variant (qwen3_moe of qwen3), or only the text part of a model. */
static bool is_variant(size_t i)
{
	const char *type = model_archs[i].model_type;
	for (size_t j = 0; j < i; j++) {
		size_t n = strlen(model_archs[j].model_type);
		if (strncmp(type, model_archs[j].model_type, n) == 0 && type[n] == '_')
			return true;
	}
	return strstr(type, "_text");
}

static enum status unknown_arch(struct fail *fail, const json_t *type)
{
	const char *name = json_string_value(type), *needs = model_arch_needs(name);
	char known[400] = "";
	if (needs)
		return fail_at(fail, E_UNSUPPORTED, "model_type", FILE_NAME
			       ": model_type \"%.40s\" is not supported: it would need %s",
			       name, needs);
	for (size_t i = 0, n = 0; i < model_n_archs && n < sizeof known; i++)
		if (!is_variant(i))
			n += (size_t)snprintf(known + n, sizeof known - n, "%s%s",
					      n ? ", " : "", model_archs[i].model_type);
	return fail_at(fail, E_UNSUPPORTED, "model_type",
		       FILE_NAME ": model_type \"%.40s\" is not supported, only %s and variants",
		       name, known);
}

/* True if `class` is the class of the body without output head: "Qwen3Model" or
 * "Gemma3TextModel" if `whole` is "Qwen3ForCausalLM" or the like. */
static bool is_body_of(const char *class, const char *whole)
{
	const char *end = strstr(whole, "ForCausalLM");
	size_t n = end ? (size_t)(end - whole) : 0;
	return n > 0 && strncmp(class, whole, n) == 0 &&
	       (strcmp(class + n, "Model") == 0 || strcmp(class + n, "TextModel") == 0);
}

static enum status read_arch(const json_t *root, const struct model_arch **out,
			     bool *out_has_head, struct fail *fail)
{
	const json_t *type = jsonfile_get(root, "model_type");
	if (!type)
		return config_missing(fail, "model_type");
	if (!json_is_string(type))
		return config_wrong(fail, "model_type", type, "a string");
	const struct model_arch *arch = arch_find(json_string_value(type));
	if (!arch)
		return unknown_arch(fail, type);
	/* The class tells a language model from other models with the same body, such as
	 * a classifier. A body without output head is an embedding model. */
	const json_t *classes = jsonfile_get(root, "architectures");
	const json_t *class;
	size_t i;
	bool is_whole = !classes, is_body = false;
	json_array_foreach((json_t *)classes, i, class) {
		const char *name = json_is_string(class) ? json_string_value(class) : "";
		is_whole |= strcmp(name, arch->class) == 0;
		is_body |= is_body_of(name, arch->class);
	}
	if (!is_whole && !is_body)
		return config_unsupported(fail, "architectures", classes);
	*out = arch;
	*out_has_head = is_whole;
	return OK;
}

/* Find the config of the text model inside the outer config. */
static enum status find_text(const json_t *root, const struct model_arch *arch,
			     const json_t **out, struct fail *fail)
{
	*out = root;
	if (!arch->within)
		return OK;
	const json_t *outer = root;
	if (*arch->within && !(outer = jsonfile_get(root, arch->within)))
		return config_missing(fail, arch->within);
	const json_t *text = jsonfile_get(outer, "text_config");
	if (!text)
		return config_missing(fail, "text_config");
	if (!json_is_object(text))
		return config_wrong(fail, "text_config", text, "an object");
	const json_t *type = jsonfile_get(text, "model_type");
	if (type && (!json_is_string(type) ||
		     !is_word(json_string_value(type), arch->text_type)))
		return config_unsupported(fail, "model_type", type);
	*out = text;
	return OK;
}

/* --- settings -------------------------------------------------------------- */

static void store(struct model_config *c, const struct setting *s, double v)
{
	char *at = (char *)c + s->at;
	if (s->kind == INT)
		*(int32_t *)(void *)at = (int32_t)v;
	else if (s->kind == FLOAT)
		*(float *)(void *)at = (float)v;
	else
		*(bool *)(void *)at = v != 0;
}

static enum status read_setting(const json_t *root, const struct setting *s,
				struct model_config *c, struct fail *fail)
{
	const json_t *v = jsonfile_get(root, s->key);
	const json_t *other = s->alias ? jsonfile_get(root, s->alias) : NULL;
	if (v && other && !json_equal(v, other))
		return fail_at(fail, E_FORMAT, s->alias, FILE_NAME ": %s and %s disagree",
			       s->key, s->alias);
	v = v ? v : other;
	if (!v && isnan(s->fallback))
		return config_missing(fail, s->key);
	if (!v) {
		store(c, s, s->fallback);
		return OK;
	}
	if (s->kind == BOOL) {
		if (!json_is_boolean(v))
			return config_wrong(fail, s->key, v, "true or false");
		store(c, s, json_is_true(v));
		return OK;
	}
	if (s->kind == INT && !json_is_integer(v))
		return config_wrong(fail, s->key, v, "an integer");
	if (!json_is_number(v))
		return config_wrong(fail, s->key, v, "a number");
	double d = json_number_value(v);
	if (!(d >= s->min && d <= s->max))
		return fail_at(fail, E_FORMAT, s->key,
			       FILE_NAME ": %s is %g, outside %.10g to %.10g", s->key, d,
			       s->min, s->max);
	store(c, s, d);
	return OK;
}

static enum status read_dense_layers(const json_t *root, struct arena *a,
				     struct model_config *c, struct fail *fail)
{
	static const char key[] = "mlp_only_layers";
	const json_t *list = jsonfile_get(root, key);
	if (!list)
		return OK;
	if (!json_is_array(list))
		return config_wrong(fail, key, list, "a list");
	size_t n = json_array_size(list);
	c->dense_layers = arena_alloc(a, n * sizeof *c->dense_layers);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t layer = json_integer_value(v);
		if (!json_is_integer(v) || layer < 0 || layer >= c->n_layers)
			return config_wrong(fail, key, v, "a layer of the model");
		c->dense_layers[c->n_dense_layers++] = (int32_t)layer;
	}
	return OK;
}

/* Read the list that says "dense" or "sparse" for each layer. */
static enum status read_mlp_types(const json_t *types, struct arena *a,
				  struct model_config *c, struct fail *fail)
{
	static const char key[] = "mlp_layer_types";
	if (json_array_size(types) != (size_t)c->n_layers)
		return config_wrong(fail, key, types, "a list of a type a layer");
	c->dense_layers = arena_alloc(a, (size_t)c->n_layers * sizeof *c->dense_layers);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *v = json_array_get(types, (size_t)i);
		const char *type = json_is_string(v) ? json_string_value(v) : "";
		if (strcmp(type, "dense") == 0)
			c->dense_layers[c->n_dense_layers++] = i;
		else if (strcmp(type, "sparse") != 0)
			return config_unsupported(fail, key, v);
	}
	return OK;
}

/* Read first_k_dense_replace: that many first layers are dense. */
static enum status read_first_dense(const json_t *root, struct arena *a,
				    struct model_config *c, struct fail *fail)
{
	static const char key[] = "first_k_dense_replace";
	const json_t *v = jsonfile_get(root, key);
	json_int_t n = json_integer_value(v);
	if (!v)
		return config_missing(fail, key);
	if (!json_is_integer(v) || n < 0)
		return config_wrong(fail, key, v, "a number of layers");
	c->n_dense_layers = n < c->n_layers ? (int32_t)n : c->n_layers;
	c->dense_layers = arena_alloc(a, (size_t)c->n_dense_layers *
						 sizeof *c->dense_layers);
	for (int32_t i = 0; i < c->n_dense_layers; i++)
		c->dense_layers[i] = i;
	return OK;
}

static enum status read_grouped(const json_t *root, struct arena *a,
				struct model_config *c, struct fail *fail)
{
	const json_t *types = jsonfile_get(root, "mlp_layer_types");
	enum status st = types ? read_mlp_types(types, a, c, fail)
			       : read_first_dense(root, a, c, fail);
	if (st != OK)
		return st;
	c->sparse_step = 1;
	c->shared_dim *= c->expert_dim;
	if (c->n_experts % c->n_groups || c->n_groups_used > c->n_groups ||
	    c->n_experts_used > c->n_experts / c->n_groups * c->n_groups_used)
		return fail_at(fail, E_FORMAT, "n_group", FILE_NAME
			       ": %d of %d experts cannot be chosen from %d of %d groups",
			       c->n_experts_used, c->n_experts, c->n_groups_used,
			       c->n_groups);
	return OK;
}

static enum status read_dtype(const json_t *root, struct model_config *c,
			      struct fail *fail)
{
	static const struct {
		const char *name;
		enum dtype dtype;
	} names[] = {{"bfloat16", DTYPE_BF16}, {"float16", DTYPE_F16},
		     {"float32", DTYPE_F32}};
	const json_t *v = jsonfile_get(root, "dtype");
	if (!v)
		v = jsonfile_get(root, "torch_dtype");
	c->dtype = DTYPE_BF16;
	if (!v)
		return OK;
	const char *name = json_string_value(v);
	for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
		if (strcmp(names[i].name, name) == 0) {
			c->dtype = names[i].dtype;
			return OK;
		}
	return config_unsupported(fail, "dtype", v);
}

/* --- activation ----------------------------------------------------------- */

/* Read hidden_act or hidden_activation. is_fixed: the architecture sets the activation
 * itself, so the key may only name SiLU. */
static enum status read_activation(const json_t *root, bool is_fixed,
				   struct model_config *c, struct fail *fail)
{
	static const struct {
		const char *name;
		enum activation_kind kind;
	} names[] = {{"silu", ACT_SILU}, {"swish", ACT_SILU},
		     {"gelu_pytorch_tanh", ACT_GELU_TANH}};
	static const char *const keys[] = {"hidden_act", "hidden_activation"};
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		const json_t *v = jsonfile_get(root, keys[k]);
		const char *name = json_string_value(v);
		size_t i = 0;
		while (name && i < ARRAY_LEN(names) && strcmp(names[i].name, name) != 0)
			i++;
		if (v && (!name || i == ARRAY_LEN(names) ||
			  (is_fixed && names[i].kind != ACT_SILU)))
			return config_unsupported(fail, keys[k], v);
		if (v)
			c->act.kind = names[i].kind;
	}
	return OK;
}

/* --- keys that must have no effect ------------------------------------------ */

static bool is_allowed(const json_t *v, const char *allowed)
{
	char buf[64];
	return is_word(spelled(v, buf), allowed);
}

static enum status check_neutral(const json_t *root, const struct model_arch *arch,
				 struct fail *fail)
{
	for (size_t i = 0; i < ARRAY_LEN(neutral); i++) {
		const json_t *v = jsonfile_get(root, neutral[i].key);
		if (v && !(arch->keys & neutral[i].unless) &&
		    !is_allowed(v, neutral[i].allowed))
			return config_unsupported(fail, neutral[i].key, v);
	}
	return OK;
}

/* --- the whole config ------------------------------------------------------- */

static enum status check_sizes(struct model_config *c, struct fail *fail)
{
	if (c->mla.kv_lora > 0)
		c->head_dim = c->mla.nope_dim + c->mla.rope_dim;
	if (c->head_dim == 0)
		c->head_dim = c->d_model / c->n_heads;
	if (c->mla.kv_lora > 0 && (c->mla.rope_dim % 2 || c->mla.kv_lora + c->mla.rope_dim > 1024))
		return fail_at(fail, E_UNSUPPORTED, "qk_rope_head_dim", FILE_NAME
			       ": keys of %d elements, %d of them rotated", c->mla.kv_lora +
			       c->mla.rope_dim, c->mla.rope_dim);
	if (c->head_dim < 2 || c->head_dim % 2)
		return fail_at(fail, E_FORMAT, "head_dim",
			       FILE_NAME ": head_dim is %d, not an even number",
			       c->head_dim);
	if (c->n_heads % c->n_kv_heads)
		return fail_at(fail, E_FORMAT, "num_key_value_heads",
			       FILE_NAME ": %d query heads cannot share %d key heads",
			       c->n_heads, c->n_kv_heads);
	if (c->n_experts_used > c->n_experts)
		return fail_at(fail, E_FORMAT, "num_experts_per_tok",
			       FILE_NAME ": %d experts a token, of %d",
			       c->n_experts_used, c->n_experts);
	return OK;
}

/* Layer i is rotated where no_rope_layers has 1 for it; without that list, where
 * (i + 1) % no_rope_layer_interval != 0. */
static enum status read_no_rope(const json_t *root, struct arena *a,
				struct model_config *c, struct fail *fail)
{
	static const char key[] = "no_rope_layers", every[] = "no_rope_layer_interval";
	const json_t *list = jsonfile_get(root, key), *v = jsonfile_get(root, every);
	json_int_t interval = v ? json_integer_value(v) : 4;
	if ((v && !json_is_integer(v)) || interval < 1)
		return config_wrong(fail, every, v, "a number of layers");
	if (list && json_array_size(list) != (size_t)c->n_layers)
		return config_wrong(fail, key, list, "a list of a number a layer");
	c->is_unrotated = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_unrotated);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *is = list ? json_array_get(list, (size_t)i) : NULL;
		json_int_t n = is ? json_integer_value(is) : (i + 1) % interval != 0;
		if (is && (!json_is_integer(is) || n < 0 || n > 1))
			return config_wrong(fail, key, is, "0 or 1");
		c->is_unrotated[i] = n == 0;
	}
	return OK;
}

/* Layers without a window are not rotated, unless none has a window. */
static void set_window_rope(struct arena *a, struct model_config *c)
{
	if (!c->is_windowed)
		return;
	c->is_unrotated = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_unrotated);
	for (int32_t i = 0; i < c->n_layers; i++)
		c->is_unrotated[i] = !c->is_windowed[i];
}

/* Settings of one text model, all defaults in place. */
static enum status read_text(const json_t *text, const struct model_arch *arch,
			     struct arena *a, struct model_config *c, struct fail *fail)
{
	const uint64_t fixed_act = KEYS_OSS | KEYS_DELTA | KEYS_GROUPED | KEYS_DEEPSEEK4;
	enum status st = check_neutral(text, arch, fail);
	for (size_t i = 0; st == OK && i < ARRAY_LEN(settings); i++)
		if (settings[i].keys & arch->keys)
			st = read_setting(text, &settings[i], c, fail);
	if (st == OK && arch->keys & KEYS_EXPERTS)
		st = read_dense_layers(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_GROUPED)
		st = read_grouped(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_ERNIE)
		st = config_ernie_read(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_NO_ROPE)
		st = read_no_rope(text, a, c, fail);
	if (st == OK)
		st = read_activation(text, arch->keys & fixed_act, c, fail);
	if (st == OK)
		st = read_dtype(text, c, fail);
	if (st == OK)
		st = config_rope_read(text, arch->keys & KEYS_LOCAL_ROPE ? "full_attention"
									 : NULL,
				      arch->theta, arch->keys & KEYS_LATE, a, c, fail);
	if (st == OK)
		st = config_windows_read(text, arch, a, c, fail);
	if (st == OK && arch->keys & KEYS_LOCAL_ROPE)
		st = config_rope_read_local(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_WINDOW_ROPE)
		set_window_rope(a, c);
	if (st == OK && arch->keys & KEYS_QUERY_SCALE)
		st = config_encoder_of_text(text, c, fail);
	if (st == OK && arch->keys & KEYS_GEMMA4)
		st = config_gemma4_read(text, c, fail);
	if (st == OK)
		st = check_sizes(c, fail);
	if (st == OK)
		st = config_partial_read(text, arch->keys, c, fail);
	if (st == OK)
		st = model_ids_read(jsonfile_get(text, "eos_token_id"), FILE_NAME,
				    "eos_token_id", c->n_vocab, c->eos_ids, &c->n_eos,
				    fail);
	if (st == OK && arch->keys & KEYS_QWEN4)
		st = config_qwen4_read(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_INDEX)
		st = config_index_read(c, fail);
	if (st == OK && arch->keys & KEYS_DEEPSEEK4)
		st = config_deepseek4_read(text, a, c, fail);
	return st;
}

/* Round x to the nearest number of float type t. */
static float rounded(enum dtype t, float x)
{
	int exponent, bits = t == DTYPE_BF16 ? 8 : t == DTYPE_F16 ? 11 : 24;
	double m = frexp(x, &exponent);
	return (float)ldexp(nearbyint(ldexp(m, bits)), exponent - bits);
}

/* Granite multiplies what each layer adds by a number r: x becomes x + r f(norm(x)). The graph
 * computes y = x / r instead, which becomes y + f(norm(y)): x and y have the same norm, except
 * for its eps. So r is needed only here. */
static void set_scales(struct model_config *c)
{
	c->embed_scale /= c->residual_scale;
	c->norm_eps /= c->residual_scale * c->residual_scale;
	c->query_scalar = 1 / (c->query_scalar * c->query_scalar);
	c->logit_scale = 1 / c->logit_scale;
}

/* Set what depends only on the architecture. */
static void set_arch(const struct model_arch *arch, struct model_config *c)
{
	snprintf(c->arch, sizeof c->arch, "%s", arch->model_type);
	c->prefix = arch->prefix ? arch->prefix : "";
	c->body = arch->body ? arch->body : "model.";
	c->qkv_bias |= arch->qkv_bias || (c->o_bias && !(arch->keys & KEYS_OUT_BIAS));
	if (arch->keys & KEYS_GROUPED) /* attention_bias does not apply to o */
		c->o_bias = false;
	c->norm_plus_one = arch->norm_plus_one || arch->keys & KEYS_DELTA;
	c->mla.eps = 1e-6f; /* a constant in Transformers, whatever rms_norm_eps is */
	if (arch->keys & KEYS_OSS) {
		c->act.kind = ACT_CLAMPED;
		c->sparse_step = 1;
		c->norm_topk = true;
	}
	if (arch->keys & KEYS_GEMMA4) {
		c->query_scalar = 1;
		c->sparse_step = 1;
		c->norm_topk = true;
	}
	if (arch->keys & KEYS_NEMOTRON) {
		c->delta.gate_eps = c->norm_eps;
		c->sparse_step = 1;
	}
	if (arch->keys & KEYS_SPACE) {
		c->delta.gate_eps = c->norm_eps;
		c->sparse_step = 1;
		c->norm_topk = true;
	}
	if (arch->keys & KEYS_ERNIE)
		c->norm_topk = true;
	if (arch->keys & KEYS_HUNYUAN && c->n_experts)
		c->shared_dim = c->expert_dim;
	if (arch->keys & KEYS_LOCAL) {
		c->sparse_step = 1;
		c->norm_topk = true;
	}
	if (arch->keys & KEYS_LLAMA4)
		c->norm_topk = false;
	if (arch->keys & (KEYS_SIGMOID | KEYS_LLAMA4)) {
		c->n_groups = c->n_groups_used = 1;
		c->routed_scale = 1;
	}
	if (arch->keys & KEYS_DEEPSEEK4) {
		c->act.kind = ACT_CLIPPED;
		c->n_groups = c->n_groups_used = c->sparse_step = 1;
		c->norm_topk = true;
		c->shared_dim = c->expert_dim;
		c->mla.eps = c->norm_eps;
	}
	if (arch->keys & KEYS_SCALES) {
		set_scales(c);
		return;
	}
	if (!(arch->keys & KEYS_LOGIT_SCALE))
		c->logit_scale = 1;
	/* Round the factors to the type of the weights, as in training. */
	float scale = arch->scales_embedding ? sqrtf((float)c->d_model) : 1;
	c->embed_scale = rounded(c->dtype, scale);
	c->gemma4.embed_scale = rounded(c->dtype, sqrtf((float)c->gemma4.embed_dim)) * sqrtf(0.5f);
}

/* EXAONE 4 spells sliding_window_pattern "LLLG": in each group of that many layers, the last
 * has full attention. */
static void spell_pattern(json_t *text)
{
	static const char key[] = "sliding_window_pattern";
	const char *s = json_string_value(jsonfile_get(text, key));
	size_t n = s ? strspn(s, "L") : 0;
	if (s && strcmp(s + n, "G") == 0)
		json_object_set_new(text, key, json_integer((json_int_t)n + 1));
}

/* Command R's config.json has its context as model_max_length, beside one of the first training. */
static void spell_context(json_t *text)
{
	const json_t *most = jsonfile_get(text, "model_max_length");
	if (json_is_integer(most))
		json_object_set(text, "max_position_embeddings", (json_t *)(uintptr_t)most);
}

enum status model_config_read(const json_t *root, struct arena *a,
			      struct model_config *out, struct fail *fail)
{
	struct model_config c = {0};
	const struct model_arch *arch = NULL;
	const json_t *found = root;
	bool has_head = false;
	if (config_encoder_is(root)) {
		*out = c;
		return config_encoder_read(root, out, fail);
	}
	enum status st = read_arch(root, &arch, &has_head, fail);
	if (st == OK)
		st = find_text(root, arch, &found, fail);
	if (st != OK)
		return st;
	json_t *text = json_copy((json_t *)(uintptr_t)found);
	if (arch->within && !jsonfile_get(text, "eos_token_id"))
		json_object_set(text, "eos_token_id",
				json_object_get(root, "eos_token_id"));
	json_t *defaults = arch->defaults ? json_loads(arch->defaults, 0, NULL) : NULL;
	for (size_t i = 0; defaults && i < ARRAY_LEN(settings); i++)
		if (settings[i].alias && jsonfile_get(text, settings[i].alias))
			json_object_del(defaults, settings[i].key);
	if (defaults)
		json_object_update_missing(text, defaults);
	spell_pattern(text);
	if (arch->keys & KEYS_LOGIT_SCALE)
		spell_context(text);
	if (arch->keys & KEYS_CONV)
		config_lfm2_spell(text);
	if (arch->keys & KEYS_SPACE)
		config_space_spell(text);
	if (arch->keys & KEYS_NEMOTRON)
		config_nemotron_spell(text);
	if (arch->keys & KEYS_HUNYUAN)
		config_hunyuan_spell(text);
	if (arch->keys & KEYS_LLAMA4)
		config_llama4_spell(text);
	if (arch->keys & (KEYS_QWEN4 | KEYS_INDEX))
		config_index_spell(text);
	if (arch->keys & KEYS_DEEPSEEK4)
		config_deepseek4_spell(text);
	st = read_text(text, arch, a, &c, fail);
	json_decref(defaults);
	json_decref(text);
	/* If the outer config has tie_word_embeddings, it overrides that of the text
	 * config. */
	const json_t *tied = jsonfile_get(root, "tie_word_embeddings");
	if (found != root && json_is_boolean(tied))
		c.tied_embeddings = json_is_true(tied);
	if (st != OK)
		return st;
	set_arch(arch, &c);
	c.has_head = has_head;
	*out = c;
	return OK;
}
