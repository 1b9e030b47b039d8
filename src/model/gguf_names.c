/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates names of tensors in GGUF to those of Hugging Face. Sources: tensor_mapping.py of
 * the gguf package for Python, and llama.cpp's converter.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/model_family.h"

/* Names within a layer. */
static const struct gguf_name parts[] = {
	{"attn_norm", "input_layernorm"},
	{"attn_q", "self_attn.q_proj"},
	{"attn_k", "self_attn.k_proj"},
	{"attn_v", "self_attn.v_proj"},
	{"attn_output", "self_attn.o_proj"},
	{"attn_q_norm", "self_attn.q_norm"},
	{"attn_k_norm", "self_attn.k_norm"},
	{"attn_sinks.weight", "self_attn.sinks"},
	{"post_attention_norm", "post_attention_layernorm"},
	{"post_ffw_norm", "post_feedforward_layernorm"},
	{"ffn_gate", "mlp.gate_proj"},
	{"ffn_up", "mlp.up_proj"},
	{"ffn_down", "mlp.down_proj"},
	{"ffn_gate_exps.bias", "mlp.experts.gate_proj_bias"},
	{"ffn_up_exps.bias", "mlp.experts.up_proj_bias"},
	{"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
	{"ffn_gate_exps", "mlp.experts.gate_proj"},
	{"ffn_up_exps", "mlp.experts.up_proj"},
	{"ffn_down_exps", "mlp.experts.down_proj"},
	{"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
	{"post_ffw_norm_1", "post_feedforward_layernorm_1"},
	{"post_ffw_norm_2", "post_feedforward_layernorm_2"},
	{"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
	{"layer_output_scale.weight", "layer_scalar"},
	{"inp_gate", "per_layer_input_gate"},
	{"proj", "per_layer_projection"},
	{"post_norm", "post_per_layer_input_norm"},
	{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
	{"exp_probs_b", "mlp.gate.e_score_correction_bias"},
	{"attn_q_a", "self_attn.q_a_proj"},
	{"attn_q_a_norm", "self_attn.q_a_layernorm"},
	{"attn_q_b", "self_attn.q_b_proj"},
	{"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
	{"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
	{"attn_kv_b", "self_attn.kv_b_proj"},
	{"attn_k_b", "self_attn.k_b_proj"},
	{"attn_v_b", "self_attn.v_b_proj"},
	{"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
	{"indexer.attn_q_b", "self_attn.indexer.wq_b"},
	{"indexer.attn_k", "self_attn.indexer.wk"},
	{"indexer.k_norm", "self_attn.indexer.k_norm"},
	{"indexer.proj", "self_attn.indexer.weights_proj"},
	{"ffn_latent_down", "mlp.fc1_latent_proj"},
	{"ffn_latent_up", "mlp.fc2_latent_proj"},
	{"attn_qkv", "linear_attn.in_proj_qkv"},
	{"attn_gate", "linear_attn.in_proj_z"},
	{"ssm_in", "linear_attn.in_proj_qkvz"},
	{"ssm_ba", "linear_attn.in_proj_ba"},
	{"ssm_beta", "linear_attn.in_proj_b"},
	{"ssm_alpha", "linear_attn.in_proj_a"},
	{"ssm_conv1d", "linear_attn.conv1d"},
	{"ssm_dt.bias", "linear_attn.dt_bias"},
	{"ssm_a", "linear_attn.A_log"},
	{"ssm_norm", "linear_attn.norm"},
	{"ssm_out", "linear_attn.out_proj"},
	{"shortconv.conv", "conv.conv"},
	{"shortconv.in_proj", "conv.in_proj"},
	{"shortconv.out_proj", "conv.out_proj"},
	{"nextn.eh_proj", "eh_proj"},
	{"nextn.enorm", "enorm"},
	{"nextn.hnorm", "hnorm"},
	{"nextn.shared_head_norm", "shared_head.norm"},
	{"nextn.shared_head_head", "shared_head.head"},
	{"nextn.embed_tokens", "embed_tokens"},
}, tops[] = {
	{"token_embd", "model.embed_tokens"},
	{"output_norm", "model.norm"},
	{"token_embd_norm", "model.norm"}, /* LFM2's last norm; it has no other of this kind */
	{"output", "lm_head"},
	{"per_layer_token_embd", "model.embed_tokens_per_layer"},
	{"per_layer_model_proj", "model.per_layer_model_projection"},
	{"per_layer_proj_norm", "model.per_layer_projection_norm"},
	{"output_hc_norm", "model.hyper_connection_mixer.hc_norm"},
	{"output_hc_down", "model.hyper_connection_mixer.input_mix_weight_down"},
	{"output_hc_up", "model.hyper_connection_mixer.input_mix_weight_up"},
	{"output_hc_fn", "model.hc_head.hc_fn"},
	{"output_hc_base.weight", "model.hc_head.hc_base"},
	{"output_hc_scale.weight", "model.hc_head.hc_scale"},
};

/* Shared experts, which every token uses: names for one, then names in models with groups. */
static const struct gguf_name shared[] = {
	{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
	{"ffn_up_shexp", "mlp.shared_expert.up_proj"},
	{"ffn_down_shexp", "mlp.shared_expert.down_proj"},
}, shared_of_groups[] = {
	{"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
	{"ffn_up_shexp", "mlp.shared_experts.up_proj"},
	{"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};

/* If name is the row's, or the row's plus "." and a suffix: the rest after the row's name; else
 * NULL. */
static const char *match(const struct gguf_name *row, const char *name, const char **out_rest)
{
	size_t n = strlen(row->gguf);
	if (strncmp(name, row->gguf, n) != 0 || (name[n] != '.' && name[n]))
		return NULL;
	*out_rest = name + n;
	return row->hf;
}

/* The part's name in Hugging Face if it depends on the architecture; NULL: it is in `parts`. */
static const char *match_own(const struct model_arch *arch, const char *part,
			     const char **out_rest)
{
	static const struct gguf_name fused[] = {{"attn_qkv", "self_attn.qkv_proj"},
						 {"ffn_up", "mlp.gate_up_proj"}};
	static const struct gguf_name of_ssm[] = {
		{"ssm_in", "mamba.in_proj"}, {"ssm_conv1d", "mamba.conv1d"},
		{"ssm_dt.bias", "mamba.dt_bias"}, {"ssm_a", "mamba.A_log"},
		{"ssm_d", "mamba.D"}, {"ssm_norm", "mamba.norm"}, {"ssm_out", "mamba.out_proj"}};
	static const struct gguf_name router = {"ffn_gate_inp", "mlp.gate"}, none = {0};
	unsigned in_gguf = arch ? arch->in_gguf : 0;
	/* In a layer with two norms, Hugging Face names this one after the attention
	 * before it. */
	const struct gguf_name mlp_norm = {
		"ffn_norm", in_gguf & GGUF_FOUR_NORMS ? "pre_feedforward_layernorm"
						      : "post_attention_layernorm"};
	bool has_groups = arch && arch->keys & (KEYS_GROUPED | KEYS_BESIDE);
	const struct gguf_name *own = arch && arch->family ? arch->family->gguf_names : NULL;
	const char *hf = NULL;
	for (own = own ? own : &none; own->gguf && !hf; own++)
		hf = match(own, part, out_rest);
	for (size_t i = 0; i < ARRAY_LEN(of_ssm) && !hf && arch && arch->keys & KEYS_SSM; i++)
		hf = match(&of_ssm[i], part, out_rest);
	for (size_t i = 0; i < 2 && !hf && in_gguf & GGUF_FUSED; i++)
		hf = match(&fused[i], part, out_rest);
	hf = hf ? hf : match(&router, part, out_rest);
	hf = hf ? hf : match(&mlp_norm, part, out_rest);
	for (size_t i = 0; i < ARRAY_LEN(shared) && !hf; i++)
		hf = match(has_groups ? &shared_of_groups[i] : &shared[i], part, out_rest);
	return hf;
}

/* Qwen4-Exp's table of n-grams has no layer in its name; a key says which layer has it. */
static const char *table_of_ngrams(const struct gguf *g, const char *name, struct arena *a)
{
	const struct gguf_value *v = gguf_find(g, "qwen4exp.ple.layers");
	char full[120];
	int64_t layer;
	if (!v || strcmp(name, "per_layer_token_embd.weight") != 0 ||
	    !gguf_integer(v, 0, &layer))
		return NULL;
	snprintf(full, sizeof full, "model.layers.%lld.ple.ple_embedding" MODEL_NGRAM_TABLE
		 "weight", (long long)layer);
	return arena_strdup(a, full);
}

const char *gguf_names_hf(const struct gguf *g, const char *name, struct arena *a)
{
	char full[260];
	const char *rest = "", *hf = NULL;
	char *part;
	struct str arch_name;
	const char *table = table_of_ngrams(g, name, a);
	if (table)
		return table;
	if (!gguf_model_arch(g, &arch_name)) /* refused, but not because two names collide */
		return name;
	for (size_t i = 0; i < ARRAY_LEN(tops); i++)
		if ((hf = match(&tops[i], name, &rest))) {
			snprintf(full, sizeof full, "%s%s", hf, rest);
			return arena_strdup(a, full);
		}
	if (strncmp(name, "blk.", 4) != 0)
		return name;
	long layer = strtol(name + 4, &part, 10);
	if (part == name + 4 || *part != '.' || layer < 0 || layer > INT32_MAX)
		return name;
	hf = match_own(gguf_model_arch(g, &arch_name), part + 1, &rest);
	for (size_t i = 0; i < ARRAY_LEN(parts) && !hf; i++)
		hf = match(&parts[i], part + 1, &rest);
	if (!hf)
		return name;
	snprintf(full, sizeof full, "model.layers.%ld.%s%s", layer, hf, rest);
	return arena_strdup(a, full);
}
