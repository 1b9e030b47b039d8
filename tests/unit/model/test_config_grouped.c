/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of models whose experts are those of GLM-4-MoE under other names, and of those whose
 * attention has gates or is Kimi delta attention.
 */
#include "tests/unit/model/config_text.h"

#define EPS "\"rms_norm_eps\":1e-5,"

/* Names of its own, and switches that may say one thing. */
static void test_hy3(void)
{
#define HY3(more) "{\"model_type\":\"hy_v3\",\"num_hidden_layers\":3," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"num_experts\":8,\"num_experts_per_tok\":2," \
	"\"moe_intermediate_size\":24,\"router_scaling_factor\":2.5" more "}"
	is_int(read_config(HY3(",\"num_shared_experts\":2,\"route_norm\":true,\"qk_norm\":true")),
	       OK, "hy_v3: %s", fail.text);
	ok(c.n_experts == 8 && c.shared_dim == 48 && c.n_groups == 1 && c.norm_topk &&
		   c.routed_scale == 2.5f && c.qk_norm && c.n_dense_layers == 1 &&
		   c.ropes[0].theta == 11158840, "its settings");
	is_int(read_config(HY3(",\"first_k_dense_replace\":0,\"route_norm\":false")), OK,
	       "others: %s", fail.text);
	ok(c.n_dense_layers == 0 && !c.norm_topk && c.shared_dim == 24, "as they say");
	is_int(read_config(HY3(",\"moe_router_use_sigmoid\":false")), E_UNSUPPORTED, "no sigmoid");
	is_int(read_config(HY3(",\"moe_router_enable_expert_bias\":false")), E_UNSUPPORTED,
	       "no bias");
	is_int(read_config(HY3(",\"qk_norm\":false")), E_UNSUPPORTED, "no norms of heads");
	is_int(read_config(HY3(",\"mlp_bias\":true")), E_UNSUPPORTED, "biases");
#undef HY3
}

/* Windows, and three ways to say which layers are dense. */
static void test_exaone(void)
{
#define EXAONE(more) "{\"model_type\":\"exaone_moe\",\"num_hidden_layers\":4," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"num_experts\":8,\"num_experts_per_tok\":2," \
	"\"moe_intermediate_size\":24,\"rope_theta\":1e6,\"routed_scaling_factor\":2.5," \
	"\"sliding_window\":16,\"sliding_window_pattern\":\"LLLG\"" more "}"
	is_int(read_config(EXAONE(",\"first_last_k_dense_replace\":2")), OK, "exaone_moe: %s",
	       fail.text);
	ok(c.n_experts == 8 && c.shared_dim == 24 && c.n_dense_layers == 2 && c.qk_norm &&
		   c.routed_scale == 2.5f, "its settings");
	ok(c.is_windowed[2] && !c.is_windowed[3] && !c.is_unrotated[2] && c.is_unrotated[3],
	   "what sees all is not rotated");
	is_int(read_config(EXAONE(",\"is_moe_layer\":[false,true,false,true]")), OK, "a list: %s",
	       fail.text);
	ok(c.n_dense_layers == 2 && c.dense_layers[1] == 2, "of layers with experts");
	is_int(read_config(EXAONE(",\"is_moe_layer\":[false,1,false,true]")), E_UNSUPPORTED,
	       "of something else");
	is_int(read_config(EXAONE(",\"architectures\":[\"ExaoneMoEForCausalLM\"]")), OK,
	       "the first files' class: %s", fail.text);
	is_int(read_config(EXAONE(",\"architectures\":[\"ExaoneMoeForTokens\"]")),
	       E_UNSUPPORTED, "another class");
	is_int(read_config(EXAONE(",\"n_group\":3")), E_FORMAT, "groups that do not fit");
#undef EXAONE
}

/* A softmax in place of groups; alone, and within the settings of Mistral 3. */
static void test_mistral4(void)
{
#define SIZES "\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4," \
	"\"num_key_value_heads\":4,\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"n_routed_experts\":8,\"num_experts_per_tok\":2," \
	"\"moe_intermediate_size\":24,\"n_shared_experts\":1,\"kv_lora_rank\":32," \
	"\"q_lora_rank\":24,\"qk_nope_head_dim\":24,\"qk_rope_head_dim\":8,\"v_head_dim\":16"
#define YARN(part) ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e4," \
	"\"type\":\"yarn\",\"max_position_embeddings\":4096,\"factor\":4," \
	"\"original_max_position_embeddings\":1024,\"llama_4_scaling_beta\":0.1," \
	"\"partial_rotary_factor\":" part "}"
#define ALONE(more) "{\"model_type\":\"mistral4\"," SIZES more "}"
#define WITHIN(type, more) "{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"" \
	type "\"," SIZES more "}}"
	is_int(read_config(ALONE(YARN("0.25"))), OK, "mistral4: %s", fail.text);
	ok(c.n_groups == 0 && c.norm_topk && c.n_dense_layers == 0 && c.n_rot == 8 &&
		   c.ropes[0].attn_temp_beta == 0.1, "its settings");
	is_str(c.prefix, "", "its tensors");
	is_int(read_config(WITHIN("mistral4", YARN("0.25"))), OK, "of a whole model: %s",
	       fail.text);
	ok(c.n_experts == 8 && c.mla.kv_lora == 32, "the text's kind decides");
	is_str(c.prefix, "language_model.", "its tensors");
	is_int(read_config("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":"
			   "\"ministral3\",\"num_hidden_layers\":2,\"hidden_size\":64,"
			   "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
			   "\"vocab_size\":512,\"max_position_embeddings\":4096," EPS
			   "\"intermediate_size\":96,\"rope_theta\":1e4}}"), OK,
	       "and another text: %s", fail.text);
	ok(c.n_experts == 0 && c.mla.kv_lora == 0, "is another model");
	is_int(read_config(WITHIN("mistral5", YARN("0.25"))), E_UNSUPPORTED, "an unknown text");
	is_int(read_config(ALONE(YARN("0.5"))), E_UNSUPPORTED, "another part of a head");
	is_int(read_config(ALONE(YARN("0.25") ",\"n_group\":2,\"topk_group\":1")), E_UNSUPPORTED,
	       "groups");
	is_int(read_config(ALONE(YARN("0.25") ",\"routed_scaling_factor\":2.5")), E_UNSUPPORTED,
	       "a factor");
#undef SIZES
#undef YARN
#undef ALONE
#undef WITHIN
}

/* Heads of each layer, gates, and two rotations. */
static void test_laguna(void)
{
#define LAGUNA(more) "{\"model_type\":\"laguna\",\"num_hidden_layers\":2," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"head_dim\":16,\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"num_experts\":8,\"num_experts_per_tok\":2," \
	"\"moe_intermediate_size\":24,\"shared_expert_intermediate_size\":40" more "}"
#define WINDOWS ",\"sliding_window\":16,\"layer_types\":[\"full_attention\"," \
	"\"sliding_attention\"],\"rope_parameters\":{\"full_attention\":{\"rope_type\":" \
	"\"default\",\"rope_theta\":5e5,\"partial_rotary_factor\":0.5}," \
	"\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}"
#define PLAIN ",\"rope_theta\":1e4"
	is_int(read_config(LAGUNA(WINDOWS ",\"num_attention_heads_per_layer\":[4,6],"
				  "\"gating\":\"per-head\",\"moe_routed_scaling_factor\":2.5")), OK,
	       "laguna: %s", fail.text);
	ok(model_heads(&c, 0) == 4 && model_heads(&c, 1) == 6 && c.gate_span == 16 &&
		   c.shared_dim == 40 && c.routed_scale == 2.5f && c.n_dense_layers == 1,
	   "its settings");
	ok(model_n_rot(&c, 0) == 8 && model_n_rot(&c, 1) == 16 && c.rope_of[1] == 1 &&
		   c.ropes[1].theta == 1e4, "its rotations");
	is_int(read_config(LAGUNA(PLAIN ",\"gating\":\"per-element\",\"sliding_window\":16,"
				  "\"gating_types\":[\"per_element\",\"per-element\"],"
				  "\"mlp_only_layers\":[0,1]")), OK, "M: %s", fail.text);
	ok(c.gate_span == 1 && !c.is_windowed && c.n_dense_layers == 2 && !c.heads_of,
	   "without layer_types all layers see all");
	static const struct {
		const char *text;
		enum status want;
	} bad[] = {
		{LAGUNA(PLAIN ",\"gating\":false"), E_UNSUPPORTED},
		{LAGUNA(PLAIN ",\"gating\":true,\"gating_types\":[\"per_head\",\"per_element\"]"),
		 E_UNSUPPORTED},
		{LAGUNA(PLAIN ",\"num_attention_heads_per_layer\":[4]"), E_FORMAT},
		{LAGUNA(PLAIN ",\"num_attention_heads_per_layer\":[4,5]"), E_FORMAT},
		{LAGUNA(PLAIN ",\"moe_router_logit_softcapping\":30.0"), E_UNSUPPORTED},
		{LAGUNA(PLAIN ",\"moe_apply_router_weight_on_input\":true"), E_UNSUPPORTED},
		{LAGUNA(PLAIN ",\"mlp_only_layers\":[2]"), E_FORMAT},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		is_int(read_config(bad[i].text), bad[i].want, "refused: %s", fail.text);
#undef LAGUNA
#undef WINDOWS
#undef PLAIN
}

/* A number a layer, with one for an MTP layer behind; heads, limits and two rotations. */
static void test_step3(void)
{
#define STEP(more) "{\"model_type\":\"step3p5\",\"num_hidden_layers\":2," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_attention_groups\":2," \
	"\"head_dim\":16,\"vocab_size\":512,\"max_position_embeddings\":4096," \
	"\"intermediate_size\":96,\"moe_num_experts\":8,\"moe_top_k\":2," \
	"\"moe_intermediate_size\":24,\"share_expert_dim\":40,\"sliding_window\":16," \
	"\"moe_router_scaling_factor\":3.0,\"num_nextn_predict_layers\":1," \
	"\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"]," \
	"\"partial_rotary_factors\":[0.5,1.0,0.5]" more "}"
#define THETA ",\"rope_theta\":[5e6,1e4,5e6]"
	is_int(read_config(STEP(THETA ",\"moe_layers_enum\":\"1\",\"swiglu_limits\":[0,7,null],"
				"\"attention_other_setting\":{\"num_attention_heads\":6,"
				"\"num_attention_groups\":2,\"head_dim\":16}")), OK,
	       "step: %s", fail.text);
	ok(model_heads(&c, 0) == 4 && model_heads(&c, 1) == 6 && c.gate_span == 16 &&
		   c.shared_dim == 40 && c.routed_scale == 3 && c.n_dense_layers == 1 &&
		   c.norm_plus_one && c.norm_topk && c.norm_eps == 1e-5f, "its settings");
	ok(c.limits.routed[0] == 0 && c.limits.routed[1] == 7 && !c.limits.others, "its limits");
	ok(model_n_rot(&c, 0) == 8 && model_n_rot(&c, 1) == 16 && c.ropes[0].theta == 5e6 &&
		   c.ropes[1].theta == 1e4, "its rotations");
	is_int(read_config(STEP(THETA)), OK, "without a list: %s", fail.text);
	ok(c.n_dense_layers == 2, "the first three layers are dense");
	static const struct {
		const char *text;
		enum status want;
	} bad[] = {
		{STEP(",\"rope_theta\":[5e6,1e4]"), OK},
		{STEP(",\"rope_theta\":[5e6]"), E_FORMAT},
		{STEP(THETA ",\"swiglu_limits\":[0,7]"), OK},
		{STEP(THETA ",\"swiglu_limits\":[7]"), E_FORMAT},
		{STEP(THETA ",\"swiglu_limits_shared\":[0,-1,0]"), E_FORMAT},
		{STEP(THETA ",\"swiglu_limits_shared\":[0,\"7\",0]"), E_FORMAT},
		{STEP(THETA ",\"zero_centered\":false"), E_UNSUPPORTED},
		{STEP(THETA ",\"sink\":true"), E_UNSUPPORTED},
		{STEP(THETA ",\"use_head_wise_attn_gate\":false"), E_UNSUPPORTED},
		{STEP(THETA ",\"norm_expert_weight\":false"), E_UNSUPPORTED},
		{STEP(THETA ",\"attention_other_setting\":{\"num_attention_groups\":4}"),
		 E_UNSUPPORTED},
		{STEP(THETA ",\"attention_other_setting\":{\"num_attention_heads\":5}"),
		 E_FORMAT},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		is_int(read_config(bad[i].text), bad[i].want, "step %zu: %s", i, fail.text);
#undef STEP
#undef THETA
}

/* Factors, and layers that do not rotate. */
static void test_muse_glimmer(void)
{
#define MUSE(more) "{\"model_type\":\"muse_glimmer_text\",\"num_hidden_layers\":5," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"head_dim\":16,\"vocab_size\":512,\"max_position_embeddings\":4096," \
	"\"intermediate_size\":96,\"rope_theta\":5e5" more "}"
	is_int(read_config(MUSE(",\"qk_scale_factor\":2.0,\"output_multiplier\":0.5,"
				"\"layer_rope_theta\":[0,5e5,5e5,5e5,0]")), OK, "muse_glimmer: %s",
	       fail.text);
	ok(c.query_scalar == 4 && c.logit_scale == 0.5f && c.logit_cap == 20 && c.window == 2048 &&
		   c.norm_plus_one && c.last_norm_whole && c.post_eps == 1e-8f, "its settings");
	ok(!c.is_windowed[0] && c.is_unrotated[0] && c.is_windowed[1] && !c.is_unrotated[1] &&
		   !c.is_windowed[4], "every fourth layer from the last one sees all");
	is_int(read_config(MUSE(",\"layer_rope_theta\":[0,0,5e5,5e5,0]")), E_UNSUPPORTED,
	       "a window that does not rotate");
	is_int(read_config(MUSE(",\"layer_rope_theta\":[0,1e4,5e5,5e5,0]")), E_UNSUPPORTED,
	       "a base of its own");
	is_int(read_config(MUSE(",\"layer_rope_theta\":[0]")), E_FORMAT, "one number");
#undef MUSE
}

/* Layers are counted from 1. Nothing rotates. */
static void test_kimi_linear(void)
{
#define KIMI_OF(own, more) "{\"model_type\":\"kimi_linear\",\"num_hidden_layers\":4," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":4," \
	"\"vocab_size\":512,\"model_max_length\":4096," EPS \
	"\"intermediate_size\":96,\"num_experts\":8,\"num_experts_per_token\":2," \
	"\"num_shared_experts\":1,\"num_expert_group\":1,\"moe_intermediate_size\":24," \
	"\"routed_scaling_factor\":2.5,\"kv_lora_rank\":32,\"qk_nope_head_dim\":16," \
	"\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"linear_attn_config\":{" own "}" more "}"
#define SIZES "\"head_dim\":16,\"num_heads\":6,\"short_conv_kernel_size\":4,"
#define LISTS "\"full_attn_layers\":[2],\"kda_layers\":[1,3,4]"
#define KIMI(more) KIMI_OF(SIZES LISTS, more)
	is_int(read_config(KIMI("")), OK, "kimi_linear: %s", fail.text);
	ok(c.n_linear == 3 && c.is_linear[0] && !c.is_linear[1] && c.is_linear[3] &&
		   c.delta.k_heads == 6 && c.delta.v_heads == 6 && c.delta.k_dim == 16 &&
		   c.delta.v_dim == 16 && c.delta.conv_width == 4, "its layers and heads");
	ok(c.n_experts == 8 && c.n_dense_layers == 1 && c.norm_topk && c.shared_dim == 24 &&
		   c.max_ctx == 4096 && c.head_dim == 24 && c.ropes[0].kind == ROPE_PART &&
		   c.ropes[0].part == 0, "its other settings");
	ok(model_kv_bytes(&c, DTYPE_F16) == 80, "only layers with attention have keys");
	is_int(read_config(KIMI(",\"moe_renormalize\":false")), OK, "%s", fail.text);
	ok(!c.norm_topk, "weights of experts as they are");
	is_int(read_config(KIMI_OF(SIZES "\"full_attn_layers\":[2],\"kda_layers\":[1,3]", "")),
	       E_FORMAT, "a layer of no kind");
	ok(strstr(fail.text, "layer 4 is neither"), "says which: %s", fail.text);
	is_int(read_config(KIMI_OF(SIZES LISTS ",\"gate_lower_bound\":-5", "")), E_UNSUPPORTED,
	       "a bound of the gate");
	is_int(read_config(KIMI(",\"mla_use_nope\":false")), E_UNSUPPORTED, "rotation");
	is_int(read_config(KIMI(",\"moe_router_activation_func\":\"softmax\"")), E_UNSUPPORTED,
	       "a softmax");
	is_int(read_config(KIMI_OF("\"num_heads\":6," LISTS, "")), E_MISSING, "no size of a head");
#undef KIMI
#undef LISTS
#undef SIZES
#undef KIMI_OF
}

/* The last layer of each group has latent attention, and everything else a decay with a bound. */
static void test_bailing_hybrid(void)
{
#define LING_OF(group, more) "{\"model_type\":\"bailing_hybrid\",\"num_hidden_layers\":4," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":4," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS "\"head_dim\":20," \
	"\"intermediate_size\":96,\"num_experts\":8,\"num_experts_per_tok\":2," \
	"\"num_shared_experts\":1,\"n_group\":4,\"topk_group\":2,\"moe_intermediate_size\":24," \
	"\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":16," \
	"\"short_conv_kernel_size\":4,\"layer_group_size\":" group "," \
	"\"partial_rotary_factor\":0.5,\"use_qk_norm\":true" more "}"
#define LING(more) LING_OF("2", more)
	is_int(read_config(LING("")), OK, "bailing_hybrid: %s", fail.text);
	ok(c.n_linear == 2 && c.is_linear[0] && !c.is_linear[1] && !c.is_linear[3] &&
		   c.delta.k_heads == 4 && c.delta.v_dim == 20 && c.delta.conv_width == 4 &&
		   c.delta.is_full && c.delta.g_min == -5, "its layers, heads and bound");
	ok(c.mla.has_gate && c.mla.is_interleaved && !c.qk_norm && c.head_dim == 24 &&
		   c.ropes[0].theta == 6000000 && c.ropes[0].kind == ROPE_DEFAULT && c.n_rot == 8 &&
		   c.n_dense_layers == 2 && c.routed_scale == 2.5f && c.shared_dim == 24,
	   "its other settings");
	is_int(read_config(LING(",\"kda_lower_bound\":-2,\"linear_head_dim\":16")), OK, "%s",
	       fail.text);
	ok(c.delta.g_min == -2 && c.delta.k_dim == 16, "a bound, and heads of Transformers' files");
	is_int(read_config(LING(",\"kda_safe_gate\":false")), OK, "%s", fail.text);
	ok(c.delta.g_min == 0, "no bound");
	ok(!c.limits.routed && !c.limits.others, "no limits");
	is_int(read_config(LING(",\"expert_swiglu_limit_list\":[0,0,null,4],"
				"\"share_expert_swiglu_limit_list\":null")), OK, "%s", fail.text);
	ok(c.limits.routed[2] == 0 && c.limits.routed[3] == 4 && !c.limits.others, "its limits");
	is_int(read_config(LING(",\"num_nextn_predict_layers\":1,"
				"\"share_expert_swiglu_limit_list\":[0,0,5,7,0]")), OK,
	       "with one for the MTP layer: %s", fail.text);
	is_int(read_config(LING(",\"expert_swiglu_limit_list\":[0,0,4]")), E_FORMAT, "%s",
	       fail.text);
	is_int(read_config(LING(",\"share_expert_swiglu_limit_list\":[0,0,0,4,4]")), E_FORMAT,
	       "%s", fail.text);
	is_int(read_config(LING(",\"expert_swiglu_limit_list\":4")), E_FORMAT, "%s", fail.text);
	static const char *const refused[] = {
		LING(",\"gated_attention_proj_granularity_type\":\"element_wise\""),
		LING(",\"no_kda_lora\":false"), LING(",\"use_mla_nope\":true"),
		LING(",\"moe_shared_expert_intermediate_size\":48"), LING(",\"value_norm\":true"),
		LING_OF("3", "")};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		is_int(read_config(refused[i]), E_UNSUPPORTED, "refused: %s", fail.text);
	is_int(read_config(LING(",\"kda_lower_bound\":5")), E_FORMAT, "a bound above 0");
#undef LING
#undef LING_OF
}

/* Latent attention without rope sees pools; a layer may see what the one before it chose. */
static void test_glm5_next(void)
{
#define GLM(more) "{\"model_type\":\"glm5_next\",\"text_config\":{" \
	"\"model_type\":\"glm5_next_text\",\"num_hidden_layers\":4,\"hidden_size\":64," \
	"\"num_attention_heads\":4,\"num_key_value_heads\":4,\"vocab_size\":512," \
	"\"max_position_embeddings\":4096,\"intermediate_size\":96,\"n_routed_experts\":8," \
	"\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,\"q_lora_rank\":24," \
	"\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,\"v_head_dim\":16,\"head_dim\":0," \
	"\"index_n_heads\":4,\"index_head_dim\":16,\"index_topk\":32,\"index_kpool\":4" more "}}"
#define KDA ",\"linear_attn_config\":{\"head_dim\":20,\"num_heads\":4," \
	"\"short_conv_kernel_size\":4,\"gate_lower_bound\":-2}"
#define SPARSE(third) ",\"layer_types\":[\"linear_attention\",\"deepseek_sparse_attention\"," \
	"\"indexed_attention\",\"" third "\"]"
	is_int(read_config(GLM(KDA)), OK, "glm5_next: %s", fail.text);
	ok(c.n_linear == 3 && !c.is_linear[3] && c.delta.k_dim == 20 && c.delta.g_min == -2 &&
		   !c.delta.is_full && c.n_dense_layers == 3, "its layers, heads and bound");
	ok(c.index.ratio == 4 && c.index.budget == 32 && c.index.is_pooled &&
		   !c.index.is_shared[3] && c.head_dim == 16 && c.n_ropes == 0, "its pools");
	ok(c.act.kind == ACT_CLIPPED && c.act.limit == 10 && c.act.gate_limit == 10 &&
		   c.streams.count == 4 && c.streams.iters == 20 && c.routed_scale == 2.5f,
	   "its other settings");
	/* A latent key, and of the indexer a key, its gates and a part of the pool's key. */
	is_int(model_layer_kv_bytes(&c, 3, DTYPE_F16), 2 * (32 + 16 + 16 + 4), "bytes of a token");
	is_int(model_layer_kv_bytes(&c, 0, DTYPE_F16), 0, "and of a layer with a state");
	is_int(read_config(GLM(KDA SPARSE("linear_attention") ",\"index_topk_pattern\":\"FFSF\"")),
	       OK, "%s", fail.text);
	ok(!c.index.is_shared[1] && c.index.is_shared[2], "a layer that shares a choice");
	is_int(model_layer_kv_bytes(&c, 2, DTYPE_F16), 2 * 32, "it keeps its latent key alone");
	is_int(read_config(GLM(KDA SPARSE("full_attention") ",\"index_topk_freq\":2")), OK, "%s",
	       fail.text);
	ok(!c.index.is_shared[1] && c.index.is_shared[2] && !c.index.is_shared[3],
	   "every second has an indexer");
	static const char *const refused[] = {
		GLM(KDA ",\"indexer_types\":[\"full\",\"full\",\"full\",\"shared\"]"),
		GLM(KDA SPARSE("full_attention") ",\"index_topk_pattern\":\"FFSS\""),
		GLM(KDA ",\"indexer_types\":[\"full\",\"full\",\"full\",\"some\"]"),
		GLM(KDA ",\"qk_rope_head_dim\":8"), GLM(KDA ",\"mhc\":false"),
		GLM(KDA ",\"index_kpool_always_select_tail\":false"),
		GLM(KDA ",\"index_kpool_compress\":false")};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		is_int(read_config(refused[i]), E_UNSUPPORTED, "refused: %s", fail.text);
	is_int(read_config(GLM("")), E_MISSING, "without heads: %s", fail.text);
	is_int(read_config(GLM(KDA ",\"indexer_types\":[\"full\"]")), E_FORMAT, "%s", fail.text);
	is_int(read_config(GLM(",\"linear_head_dim\":20,\"linear_num_heads\":4,"
			       "\"linear_conv_kernel_dim\":4,\"linear_lower_bound\":null")), OK,
	       "%s", fail.text);
	ok(c.delta.g_min == 0, "no bound");
#undef GLM
#undef KDA
#undef SPARSE
}

int main(void)
{
	arena_init(&arena);
	test_glm5_next();
	test_hy3();
	test_exaone();
	test_mistral4();
	test_laguna();
	test_step3();
	test_muse_glimmer();
	test_kimi_linear();
	test_bailing_hybrid();
	arena_deinit(&arena);
	return tap_done();
}
