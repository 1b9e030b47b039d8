/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates names of tensors. Mixtral and MiniMax M2 call the parts of an expert w1, w3 and
 * w2; GraniteMoE has all experts of a layer in one tensor; LFM2, Bamba, Nemotron-H, Step, Ling 3
 * and DeepSeek-V4 have names of their own; Gemma 4's experts are not below "mlp". Sources:
 * conversion_mapping.py, modeling_lfm2.py and modeling_bamba.py of Hugging Face Transformers.
 */
#include "model/usual_names.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct respelled {
	const char *from, *to;
};

/* Names of LFM2 and Bamba. The first row that fits holds. */
static const struct respelled of_lfm2[] = {
	{"model.embedding_norm.", "model.norm."},
	{".operator_norm.", ".input_layernorm."},
	{".ffn_norm.", ".post_attention_layernorm."},
	{".self_attn.q_layernorm.", ".self_attn.q_norm."},
	{".self_attn.k_layernorm.", ".self_attn.k_norm."},
	{".self_attn.out_proj.", ".self_attn.o_proj."},
	{".feed_forward.w1.", ".mlp.gate_proj."},
	{".feed_forward.w2.", ".mlp.down_proj."},
	{".feed_forward.w3.", ".mlp.up_proj."},
	{".feed_forward.expert_bias", ".mlp.gate.e_score_correction_bias"},
	{".feed_forward.gate.", ".mlp.gate."},
	{".feed_forward.router.", ".mlp.router."},             /* Llama 4 */
	{".feed_forward.shared_expert.", ".mlp.shared_expert."}, /* Llama 4 */
	{".feed_forward.experts.", ".mlp.experts."},
	/* Bamba's names. */
	{"model.final_layernorm.", "model.norm."},
	{".pre_ff_layernorm.", ".post_attention_layernorm."},
	{".feed_forward.gate_proj.", ".mlp.gate_proj."},
	{".feed_forward.up_proj.", ".mlp.up_proj."},
	{".feed_forward.down_proj.", ".mlp.down_proj."},
}, of_expert[] = {{".w1.", ".gate_proj."}, {".w2.", ".down_proj."}, {".w3.", ".up_proj."}};

/* Names of Granite 4's hybrids, ERNIE 4.5, Hunyuan and others. */
static const struct respelled of_granite[] = {
	{".shared_mlp.input_linear.", ".mlp.shared_experts.gate_up_proj."},
	{".shared_mlp.output_linear.", ".mlp.shared_experts.down_proj."},
	{".mlp.shared_mlp.", ".mlp.shared_experts."},
	{".mlp.gate.wg.", ".mlp.gate."},
	{".mlp.router.gate.", ".mlp.gate."},
	{".self_attn.gate_proj.", ".self_attn.g_proj."}, /* Muse Glimmer */
	{".mlp.expert_bias", ".mlp.gate.e_score_correction_bias"},
	{".mlp.experts.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"},
	{".mlp.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"},
	{".query_layernorm.", ".q_norm."},
	{".key_layernorm.", ".k_norm."},
	{".mlp.moe_statics.", ".mlp.gate."},
	{".self_attn.forget_gate.", ".self_attn."}, /* Kimi-Linear in Transformers */
	{".indexer.index_kpool_compress_gate", ".indexer.compress_gate.weight"}, /* GLM-5.3 */
};

/* Names of Step. */
static const struct respelled of_step[] = {
	{".moe.gate.", ".mlp.gate."},
	{".moe.router_bias", ".mlp.gate.e_score_correction_bias"},
	{".moe.gate_proj.", ".mlp.experts.gate_proj."},
	{".moe.up_proj.", ".mlp.experts.up_proj."},
	{".moe.down_proj.", ".mlp.experts.down_proj."},
	{".share_expert.", ".mlp.shared_experts."},
};

/* Copy `name` to out with its first r->from replaced. False if name does not have it. */
static bool respell(const char *name, const struct respelled *r, char out[300])
{
	const char *at = strstr(name, r->from);
	if (at)
		snprintf(out, 300, "%.*s%s%s", (int)(at - name), name, r->to,
			 at + strlen(r->from));
	return at;
}

/* Names of Ling 3. Those of its layers begin with "model.layers.": towers of others have layers
 * with an "attention", too. */
static const struct respelled of_ling[] = {
	{".attention.dense.", ".self_attn.o_proj."},
	{".attention.", ".self_attn."},
	{".mlp.gate.expert_bias", ".mlp.gate.e_score_correction_bias"},
}, of_ling_top = {"model.word_embeddings.", "model.embed_tokens."};

static const char *ling_name(const char *name, struct arena *a)
{
	static const char layers[] = "model.layers.";
	char full[300];
	if (respell(name, &of_ling_top, full))
		return arena_strdup(a, full);
	for (size_t i = 0; i < ARRAY_LEN(of_ling); i++)
		if (strncmp(name, layers, strlen(layers)) == 0 && respell(name, &of_ling[i], full))
			return arena_strdup(a, full);
	return NULL;
}

/* Names of Nemotron-H, where each layer has one part, "mixer". */
static const struct respelled of_nemotron[] = {
	{"backbone.embeddings.", "backbone.embed_tokens."},
	{"backbone.norm_f.", "backbone.norm."},
	{".mixer.q_proj.", ".self_attn.q_proj."},
	{".mixer.k_proj.", ".self_attn.k_proj."},
	{".mixer.v_proj.", ".self_attn.v_proj."},
	{".mixer.o_proj.", ".self_attn.o_proj."},
	{".mixer.up_proj.", ".mlp.up_proj."},
	{".mixer.down_proj.", ".mlp.down_proj."},
	{".mixer.gate.", ".mlp.gate."},
	{".mixer.experts.", ".mlp.experts."},
	{".mixer.shared_experts.", ".mlp.shared_experts."},
	{".mixer.fc1_latent_proj.", ".mlp.fc1_latent_proj."},
	{".mixer.fc2_latent_proj.", ".mlp.fc2_latent_proj."},
	{".mixer.", ".mamba."},
};

static const char *lfm2_name(const char *name, struct arena *a)
{
	char full[300], expert[300];
	for (size_t i = 0; i < ARRAY_LEN(of_lfm2); i++)
		if (respell(name, &of_lfm2[i], full)) {
			for (size_t k = 0; k < ARRAY_LEN(of_expert); k++)
				if (respell(full, &of_expert[k], expert))
					return arena_strdup(a, expert);
			return arena_strdup(a, full);
		}
	return NULL;
}

/* Names of DeepSeek-V4. All rows are applied in this order, each to the result of the one
 * before. */
static const struct respelled of_deepseek4[] = {
	{".attn.", ".self_attn."},
	{".ffn.", ".mlp."},
	{".self_attn.indexer.compressor.", ".self_attn.compressor.indexer."},
	{".self_attn.indexer.weights_proj.", ".self_attn.compressor.indexer.scorer.weights_proj."},
	{".self_attn.indexer.wq_b.", ".self_attn.compressor.indexer.q_b_proj."},
	{".attn_norm.", ".input_layernorm."},
	{".ffn_norm.", ".post_attention_layernorm."},
	{".hc_attn_", ".attn_hc."},
	{".hc_ffn_", ".ffn_hc."},
	{".attn_sink", ".sinks"},
	{".norm.weight", ".kv_norm.weight"},
	{".ape", ".position_bias"},
	{".self_attn.wq_a.", ".self_attn.q_a_proj."},
	{".self_attn.wq_b.", ".self_attn.q_b_proj."},
	{".wkv.", ".kv_proj."},
	{".wgate.", ".gate_proj."},
	{".wo_a.", ".o_a_proj."},
	{".wo_b.", ".o_b_proj."},
	{".q_norm.", ".q_a_norm."},
	{".mlp.gate.bias", ".mlp.gate.e_score_correction_bias"},
	{"_hc.fn", "_hc.fn.weight"},
}, of_deepseek4_top[] = {
	{"hc_head_", "hc_head.hc_"},
	{"hc_head.hc_fn", "hc_head.hc_fn.weight"},
};

static const char *deepseek4_name(const char *name, struct arena *a)
{
	char full[300], next[300];
	bool is_top = strstr(name, "hc_head");
	const struct respelled *all = is_top ? of_deepseek4_top : of_deepseek4;
	size_t n = is_top ? ARRAY_LEN(of_deepseek4_top) : ARRAY_LEN(of_deepseek4);
	if (strcmp(name, "embed.weight") == 0)
		return "embed_tokens.weight";
	if (strcmp(name, "head.weight") == 0)
		return "lm_head.weight";
	snprintf(full, sizeof full, "%s", name);
	for (size_t i = 0; i < n; i++)
		if (respell(full, &all[i], next))
			snprintf(full, sizeof full, "%s", next);
	for (size_t i = 0; i < ARRAY_LEN(of_expert) && strstr(full, "experts."); i++)
		if (respell(full, &of_expert[i], next))
			snprintf(full, sizeof full, "%s", next);
	return arena_strdup(a, full);
}

static bool is_deepseek4(const char *name)
{
	static const char *const parts[] = {
		".attn.wq_", ".attn.wkv.", ".attn.wo_", ".attn.attn_sink", ".attn.compressor.",
		".attn.indexer.", ".attn.norm.weight", ".attn.kv_norm.weight",
		".attn.q_norm.weight", ".attn_norm.", ".hc_attn_", ".hc_ffn_", "hc_head", "_hc.fn",
		".ffn.gate.", ".ffn.experts.", ".ffn.shared_experts.", ".ffn_norm."};
	bool is = strcmp(name, "embed.weight") == 0 || strcmp(name, "head.weight") == 0;
	for (size_t i = 0; i < ARRAY_LEN(parts) && !is; i++)
		is = strstr(name, parts[i]);
	return is && !strstr(name, "visual.") && !strstr(name, "vision");
}

const char *usual_names_of(const char *name, struct arena *a)
{
	static const char sparse[] = "block_sparse_moe.";
	static const struct respelled parts[] = {
		{"input_linear.", "experts.gate_up_proj."},
		{"output_linear.", "experts.down_proj."},
		{"router.layer.", "gate."},
		{"e_score_correction_bias", "gate.e_score_correction_bias"},
	};
	const char *at = strstr(name, sparse), *rest = at ? at + strlen(sparse) : NULL;
	char full[300];
	static const struct respelled of_eagle = {"midlayer.", "layers.0."};
	const char *ling = ling_name(name, a);
	if (ling)
		return ling;
	if (is_deepseek4(name))
		return deepseek4_name(name, a);
	if (respell(name, &of_eagle, full))
		return arena_strdup(a, full);
	static const struct respelled of_gemma4 = {".experts.", ".mlp.experts."};
	if (!at && !strstr(name, "mlp.") && !strstr(name, ".feed_forward.") &&
	    !strstr(name, ".mixer.") &&
	    respell(name, &of_gemma4, full))
		return arena_strdup(a, full);
	for (size_t i = 0; i < ARRAY_LEN(of_step); i++)
		if (respell(name, &of_step[i], full))
			return arena_strdup(a, full);
	for (size_t i = 0; i < ARRAY_LEN(of_nemotron); i++)
		if (respell(name, &of_nemotron[i], full))
			return arena_strdup(a, full);
	for (size_t i = 0; i < ARRAY_LEN(of_granite) && !at; i++)
		if (respell(name, &of_granite[i], full))
			return arena_strdup(a, full);
	if (!at)
		return lfm2_name(name, a);
	snprintf(full, sizeof full, "%.*smlp.%s", (int)(at - name), name, rest);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strncmp(rest, parts[i].from, strlen(parts[i].from)) == 0)
			snprintf(full, sizeof full, "%.*smlp.%s%s", (int)(at - name), name,
				 parts[i].to, rest + strlen(parts[i].from));
	for (size_t i = 0; i < ARRAY_LEN(of_expert); i++) {
		const char *w = strstr(rest, of_expert[i].from);
		if (w)
			snprintf(full, sizeof full, "%.*smlp.%.*s%s%s", (int)(at - name),
				 name, (int)(w - rest), rest, of_expert[i].to,
				 w + strlen(of_expert[i].from));
	}
	return arena_strdup(a, full);
}
