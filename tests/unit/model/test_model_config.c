/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/model_arch.h"
#include "tests/unit/model/config_text.h"

#define ROPE "\"rope_theta\":1e6"
#define LONG(few, many) ",\"rope_scaling\":{\"rope_type\":\"longrope\"," \
	"\"short_factor\":" few ",\"long_factor\":" many
#define DENSE "\"model_type\":\"qwen3\"," SIZES
#define QWEN2 "\"model_type\":\"qwen2\"," SIZES
#define LLAMA "\"model_type\":\"llama\"," SIZES
#define MISTRAL "\"model_type\":\"mistral\"," SIZES
#define SIZES "\"num_hidden_layers\":2," \
	"\"hidden_size\":128,\"num_attention_heads\":4," \
	"\"num_key_value_heads\":2,\"head_dim\":64,\"intermediate_size\":384," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS
#define EPS "\"rms_norm_eps\":1e-6,"
#define MOE "\"model_type\":\"qwen3_moe\"," THINKER
#define THINKER "\"num_hidden_layers\":4," \
	"\"hidden_size\":128,\"num_attention_heads\":4," \
	"\"num_key_value_heads\":2,\"intermediate_size\":384," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"num_experts_per_tok\":2,\"moe_intermediate_size\":96,"

static void test_good(void)
{
	is_int(read_config("{" DENSE ROPE ",\"tie_word_embeddings\":true,"
			   "\"torch_dtype\":\"float16\",\"eos_token_id\":500,"
			   "\"rope_scaling\":null,\"sliding_window\":4096,"
			   "\"use_sliding_window\":false,\"attention_dropout\":0.5}"),
	       OK, "a dense model: %s", fail.text);
	is_str(c.arch, "qwen3", "its name");
	ok(c.n_layers == 2 && c.d_model == 128 && c.n_heads == 4 &&
		   c.n_kv_heads == 2 && c.head_dim == 64 && c.ffn_dim == 384 &&
		   c.n_vocab == 512 && c.max_ctx == 4096, "its sizes");
	ok(c.tied_embeddings && c.n_experts == 0 && c.bos_id == -1, "its switches");
	is_near(c.ropes[0].theta, 1e6, 0, "rope_theta");
	is_near(c.norm_eps, 1e-6, 1e-12, "rms_norm_eps");
	ok(c.n_eos == 1 && c.eos_ids[0] == 500, "one eos");
	is_int(c.dtype, DTYPE_F16, "torch_dtype");

	is_int(read_config("{" MOE "\"num_local_experts\":8,\"norm_topk_prob\":true,"
			   "\"decoder_sparse_step\":2,\"mlp_only_layers\":[1,3],"
			   "\"dtype\":\"float32\",\"bos_token_id\":7,"
			   "\"eos_token_id\":[1,2,1],"
			   "\"rope_parameters\":{\"rope_theta\":5e5,"
			   "\"rope_type\":\"default\"}}"),
	       OK, "experts, the newer spelling: %s", fail.text);
	ok(c.n_experts == 8 && c.n_experts_used == 2 && c.expert_dim == 96 &&
		   c.norm_topk && c.sparse_step == 2, "experts");
	ok(c.n_dense_layers == 2 && c.dense_layers[1] == 3, "dense layers");
	is_int(c.head_dim, 32, "head_dim follows from the width");
	is_near(c.ropes[0].theta, 5e5, 0, "rope_parameters.rope_theta");
	ok(c.n_eos == 2 && c.eos_ids[1] == 2, "a list of eos, each once");
	ok(c.dtype == DTYPE_F32 && c.bos_id == 7, "dtype, bos");
	is_int(read_config("{" DENSE ROPE ",\"rope_parameters\":{\"rope_theta\":"
			   "1000000,\"rope_type\":\"default\"}}"),
	       OK, "both spellings, agreeing");
	is_int(read_config("{" DENSE ROPE ",\"architectures\":[\"X\","
			   "\"Qwen3ForCausalLM\"]}"), OK, "one of the classes");
}

static void test_dense(void)
{
	is_int(read_config("{" QWEN2 ROPE ",\"use_sliding_window\":true,"
			   "\"sliding_window\":99,\"max_window_layers\":1}"), OK,
	       "qwen2: %s", fail.text);
	ok(c.qkv_bias && !c.o_bias, "biases, no norms of heads");
	ok(c.window == 99 && !c.is_windowed[0] && c.is_windowed[1], "its windows");
	is_int(read_config("{" QWEN2 ROPE ",\"use_sliding_window\":true,"
			   "\"sliding_window\":99,\"layer_types\":"
			   "[\"sliding_attention\",\"full_attention\"]}"), OK,
	       "a list of types: %s", fail.text);
	ok(c.is_windowed[0] && !c.is_windowed[1], "decides");
	is_int(read_config("{" QWEN2 ROPE ",\"sliding_window\":99,\"layer_types\":"
			   "[\"full_attention\",\"full_attention\"]}"), OK,
	       "not used: %s", fail.text);
	ok(c.window == 0 && !c.is_windowed, "no window");
	is_int(read_config("{" MISTRAL ROPE ",\"sliding_window\":7}"), OK, "mistral");
	ok(c.window == 7 && c.is_windowed[0] && c.is_windowed[1] && !c.qkv_bias,
	   "all layers");
	is_int(read_config("{" MISTRAL ROPE ",\"sliding_window\":null}"), OK, "null");
	ok(c.window == 0, "none");
	is_int(read_config("{" LLAMA "\"attention_bias\":true,\"sliding_window\":7}"),
	       OK, "llama: %s", fail.text);
	ok(c.qkv_bias && c.o_bias && c.window == 0, "biases, no window");
	is_near(c.ropes[0].theta, 10000, 0, "its theta where none is given");
	is_str(c.prefix, "", "no prefix");
}

static void test_rope(void)
{
	is_int(read_config("{" DENSE ROPE ",\"rope_scaling\":{\"rope_type\":\"yarn\","
			   "\"factor\":4,\"original_max_position_embeddings\":2048}}"),
	       OK, "yarn: %s", fail.text);
	ok(c.ropes[0].kind == ROPE_YARN && c.ropes[0].factor == 4 && c.ropes[0].beta_fast == 32 &&
		   c.ropes[0].original_ctx == 2048, "its values and defaults");
	is_int(c.max_ctx, 8192, "reaches further than max_position_embeddings");
	is_int(read_config("{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"yarn\","
			   "\"factor\":2}}"), OK, "without the original context");
	ok(c.ropes[0].original_ctx == 4096 && c.max_ctx == 8192, "it is the config's");
	is_int(read_config("{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"dynamic\","
			   "\"factor\":2}}"), OK, "dynamic: %s", fail.text);
	ok(c.ropes[0].kind == ROPE_DEFAULT && c.max_ctx == 4096,
	   "is plain within max_position_embeddings");
}

#define GROUPED "\"n_routed_experts\":8,\"n_shared_experts\":1," \
	"\"first_k_dense_replace\":2,\"routed_scaling_factor\":2.5,"
#define GLM "\"model_type\":\"glm4_moe\"," THINKER ROPE "," GROUPED

#define DELTA "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4," \
	"\"linear_key_head_dim\":32,\"linear_value_head_dim\":32," \
	"\"linear_conv_kernel_dim\":4,\"partial_rotary_factor\":0.25,"
#define NEXT "\"model_type\":\"qwen3_next\"," THINKER "\"num_experts\":8," \
	"\"shared_expert_intermediate_size\":64," ROPE "," DELTA
#define OSS "\"model_type\":\"gpt_oss\"," SIZES "\"num_local_experts\":8," \
	"\"num_experts_per_tok\":2," ROPE ","
#define GEMMA "\"model_type\":\"gemma3_text\"," SIZES
#define MLA "\"model_type\":\"deepseek_v3\"," THINKER ROPE "," GROUPED \
	"\"n_group\":4,\"topk_group\":2,\"kv_lora_rank\":64,\"v_head_dim\":24," \
	"\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,"
#define SPARSE(dim) "\"model_type\":\"deepseek_v32\"," THINKER ROPE "," GROUPED \
	"\"n_group\":4,\"topk_group\":2,\"kv_lora_rank\":64,\"v_head_dim\":24," \
	"\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,\"q_lora_rank\":48," \
	"\"index_n_heads\":4,\"index_head_dim\":" dim ","

static void test_grouped(void)
{
	is_int(read_config("{" GLM "\"n_group\":4,\"topk_group\":2,\"use_qk_norm\":false,"
			   "\"attention_bias\":true,\"partial_rotary_factor\":0.5,"
			   "\"scoring_func\":\"sigmoid\"}"), OK, "glm4_moe: %s",
	       fail.text);
	ok(c.n_experts == 8 && c.shared_dim == c.expert_dim && c.n_groups == 4 &&
		   c.n_groups_used == 2 && c.routed_scale == 2.5f && c.norm_topk,
	   "its experts");
	ok(c.n_dense_layers == 2 && c.dense_layers[1] == 1 && c.sparse_step == 1,
	   "its dense layers");
	ok(c.qkv_bias && !c.o_bias, "bias of q, k, v; no norms of heads");
	is_int(c.n_rot, c.head_dim / 2, "half a head is rotated");
}

static void test_thinker(void)
{
	is_int(read_config("{\"model_type\":\"qwen3_omni_moe\",\"num_hidden_layers\":9,"
			   "\"thinker_config\":{\"hidden_size\":9,\"text_config\":{"
			   "\"model_type\":\"qwen3_omni_moe_text\"," THINKER ROPE
			   ",\"num_experts\":8,\"rope_scaling\":{\"type\":\"default\","
			   "\"mrope_section\":[24,20,20],\"interleaved\":true}}}}"),
	       OK, "a thinker: %s", fail.text);
	ok(c.n_layers == 4 && c.n_experts == 8, "has the text's settings");
	is_str(c.prefix, "thinker.", "and names");
	is_str(c.arch, "qwen3_omni_moe", "is called as the whole");
}

static void test_vision(void)
{
	is_int(read_config("{\"model_type\":\"qwen3_vl_moe\",\"vision_config\":{},"
			   "\"text_config\":{\"model_type\":\"qwen3_vl_moe_text\","
			   THINKER ROPE ",\"num_experts\":8,\"rope_scaling\":{"
			   "\"rope_type\":\"default\",\"mrope_interleaved\":true,"
			   "\"mrope_section\":[24,20,20]}}}"), OK, "qwen3_vl_moe: %s",
	       fail.text);
	ok(c.n_experts == 8 && c.norm_topk && c.n_rot == c.head_dim,
	   "its text's settings");
	is_str(c.body, "model.language_model.", "its tensors");
	is_int(read_config("{\"model_type\":\"mistral3\",\"vision_config\":{},"
			   "\"text_config\":{" MISTRAL ROPE "}}"), OK, "mistral3: %s", fail.text);
	is_str(c.prefix, "language_model.", "its tensors");
}

#define LATE "\"rope_parameters\":{\"type\":\"yarn\",\"rope_theta\":1e6,\"factor\":16," \
	"\"original_max_position_embeddings\":256,\"max_position_embeddings\":4096," \
	"\"llama_4_scaling_beta\":0.1}"

static void test_attn_temp(void)
{
	is_int(read_config("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":"
			   "\"ministral3\"," SIZES LATE "}}"), OK, "ministral3: %s", fail.text);
	is_near(c.ropes[0].attn_temp_beta, 0.1, 1e-9, "late queries are longer");
	is_near(c.ropes[0].original_ctx, 256, 0, "from here on");
	is_int(read_config("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":"
			   "\"mini\"," SIZES LATE "}}"), E_UNSUPPORTED, "another text");
}

#define OF(type) "{\"model_type\":\"" type "\"," SIZES ROPE

static void test_more_dense(void)
{
	is_int(read_config(OF("seed_oss") ",\"attention_bias\":true,"
			   "\"attention_out_bias\":false}"), OK, "seed_oss: %s", fail.text);
	ok(c.qkv_bias && !c.o_bias && c.logit_scale == 1, "biases of q, k and v");
	is_int(read_config(OF("granite") ",\"embedding_multiplier\":12,"
			   "\"attention_multiplier\":0.125,\"residual_multiplier\":0.25,"
			   "\"logits_scaling\":8.0}"), OK, "granite: %s", fail.text);
	is_near(c.embed_scale, 48, 1e-5, "embeddings, of what is scaled");
	is_near(c.norm_eps, 1.6e-5, 1e-10, "eps of that");
	is_near(c.query_scalar, 64, 1e-4, "attention");
	is_near(c.logit_scale, 0.125, 1e-7, "logits");
	is_int(read_config(OF("smollm3") ",\"no_rope_layer_interval\":2}"), OK,
	       "smollm3: %s", fail.text);
	ok(!c.is_unrotated[0] && c.is_unrotated[1], "every second is not rotated");
	is_int(read_config(OF("smollm3") ",\"no_rope_layers\":[0,1]}"), OK, "a list: %s",
	       fail.text);
	ok(c.is_unrotated[0] && !c.is_unrotated[1], "1 is rotated");
}

/* Two spellings of one rope, with the context of the first training beside them or inside. */
static void test_long(void)
{
	static const char part[] = "\"original_max_position_embeddings\":32,\"partial_rotary_"
				   "factor\":0.0625";
	char text[1024];
	snprintf(text, sizeof text, OF("phi3") ",%s" LONG("[1,2]", "[3,4]") "},"
		 "\"rope_parameters\":{\"type\":\"su\",\"short_factor\":[1,2],"
		 "\"long_factor\":[3,4]}}", part);
	is_int(read_config(text), OK, "longrope: %s", fail.text);
	const struct rope *r = &c.ropes[0];
	ok(r->kind == ROPE_LONG && r->n_factors == 2 && r->factors[1] == 2 &&
	   r->long_factors[0] == 3 && r->original_ctx == 32 && r->factor == c.max_ctx / 32.0,
	   "its factors and its contexts");
	snprintf(text, sizeof text, OF("phi3") ",%s" LONG("[1,2]", "[3,4]") "},"
		 "\"rope_parameters\":{\"type\":\"su\",\"short_factor\":[1,2],"
		 "\"long_factor\":[3,5]}}", part);
	is_int(read_config(text), E_FORMAT, "the two disagree: %s", fail.text);
}

static void test_families(void)
{
	is_int(read_config(OF("phi3") "}"), OK, "phi3: %s", fail.text);
	is_int(c.n_rot, c.head_dim, "phi3: all of a head rotates");
	is_int(read_config("{\"model_type\":\"minimax_m2\",\"num_local_experts\":8,"
			   "\"num_experts_per_tok\":2,\"head_dim\":32,\"rotary_dim\":16,"
			   "\"scoring_func\":\"sigmoid\",\"use_routing_bias\":true,"
			   "\"qk_norm_type\":\"per_layer\"," SIZES ROPE "}"), OK,
	       "minimax_m2: %s", fail.text);
	ok(c.n_rot == 16 && c.n_groups == 1 && c.norm_topk &&
		   c.routed_scale == 1 && c.expert_dim > 0, "its experts, its rotation");
	is_int(read_config(OF("exaone4") ",\"sliding_window\":16,"
			   "\"sliding_window_pattern\":\"LG\"}"), OK, "exaone4: %s",
	       fail.text);
	ok(c.is_windowed[0] && !c.is_windowed[1], "LG: the second sees all");
	ok(!c.is_unrotated[0] && c.is_unrotated[1], "and is not rotated");
	is_int(read_config(OF("exaone4") ",\"sliding_window\":null,"
			   "\"sliding_window_pattern\":null}"), OK, "no window: %s", fail.text);
	ok(!c.is_windowed && !c.is_unrotated, "so all are rotated");
	is_int(read_config(OF("olmo3") ",\"sliding_window\":16,\"rope_scaling\":"
			   "{\"rope_type\":\"yarn\",\"factor\":8}}"), OK, "olmo3: %s",
	       fail.text);
	ok(c.ropes[0].kind == ROPE_YARN && c.ropes[1].kind == ROPE_DEFAULT &&
		   c.ropes[1].theta == c.ropes[0].theta && c.rope_of[0] == 1,
	   "with a window not stretched");
	is_int(read_config(OF("exaone4") ",\"sliding_window\":16,"
			   "\"sliding_window_pattern\":\"GL\"}"), E_FORMAT, "another pattern");
	is_int(read_config(OF("exaone4") ",\"sliding_window_pattern\":0}"), OK, "0: none");
	is_int(read_config(OF("exaone4") ",\"sliding_window\":16,"
			   "\"sliding_window_pattern\":0}"), E_MISSING, "but of a window");
}

#define LFM(type) "{\"model_type\":\"" type "\",\"num_hidden_layers\":3," \
	"\"hidden_size\":128,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096,\"norm_eps\":1e-5," \
	"\"conv_L_cache\":3,"
#define LAYERS "\"layer_types\":[\"conv\",\"full_attention\",\"conv\"]"

static void test_lfm2(void)
{
	is_int(read_config(LFM("lfm2") LAYERS ",\"block_ff_dim\":1000,"
			   "\"block_multiple_of\":256}"), OK, "lfm2: %s", fail.text);
	is_int(c.ffn_dim, 768, "two thirds of its width, rounded up");
	ok(c.is_linear[0] && !c.is_linear[1] && c.n_linear == 2 && c.delta.conv_width == 3,
	   "its convolutions");
	is_int(model_state_numbers(&c), 2 * 128 * 2, "their state: two inputs a channel");
	ok(c.tied_embeddings && c.norm_eps == 1e-5f && c.head_dim == 32 &&
		   c.ropes[0].theta == 1e6, "what it leaves out");
	is_int(read_config(LFM("lfm2") "\"full_attn_idxs\":[1],\"intermediate_size\":96,"
			   "\"block_auto_adjust_ff_dim\":false}"), OK, "an older one: %s",
	       fail.text);
	ok(c.ffn_dim == 96 && c.is_linear[0] && !c.is_linear[1] && c.is_linear[2],
	   "its width and layers are as they say");
	is_int(read_config(LFM("lfm2_moe") LAYERS ",\"intermediate_size\":96,"
			   "\"num_experts\":4,\"num_experts_per_tok\":2,"
			   "\"moe_intermediate_size\":24,\"num_dense_layers\":2,"
			   "\"routed_scaling_factor\":1.0,\"use_expert_bias\":true}"), OK,
	       "lfm2_moe: %s", fail.text);
	ok(c.ffn_dim == 96 && c.n_dense_layers == 2 && c.n_groups == 1 && c.norm_topk,
	   "its experts begin behind two layers");
}

static const struct {
	const char *text;
	enum status want;
	const char *param;
} faults[] = {
	{LFM("lfm2") "\"intermediate_size\":96}", E_MISSING, "layer_types"},
	{LFM("lfm2") "\"intermediate_size\":96,\"layer_types\":[\"conv\",\"mamba\","
	 "\"conv\"]}", E_UNSUPPORTED, "layer_types"},
	{LFM("lfm2") "\"intermediate_size\":96,\"conv_bias\":true," LAYERS "}", E_UNSUPPORTED,
	 "conv_bias"},
	{LFM("lfm2_moe") "\"use_expert_bias\":false," LAYERS "}", E_UNSUPPORTED,
	 "use_expert_bias"},
	{"{}", E_MISSING, "model_type"}, {"{\"model_type\":3}", E_FORMAT, "model_type"},
	{"{\"model_type\":\"gemma\"}", E_UNSUPPORTED, "model_type"},
	{"{\"model_type\":\"mistral4_vl\"}", E_UNSUPPORTED, "model_type"}, /* a name of our own */
	{"{" NEXT "\"attn_output_gate\":false}", E_UNSUPPORTED, "attn_output_gate"},
	{"{" NEXT "\"full_attention_interval\":0}", E_FORMAT, "full_attention_interval"},
	{"{" NEXT "\"layer_types\":[\"full_attention\",\"linear_attention\","
	 "\"full_attention\",\"sliding_attention\"]}", E_UNSUPPORTED, "layer_types"},
	{"{" NEXT "\"layer_types\":[\"full_attention\"]}", E_FORMAT, "layer_types"},
	{"{" NEXT "\"linear_num_key_heads\":3}", E_FORMAT, "linear_num_value_heads"},
	{"{" OSS "\"hidden_act\":\"gelu\"}", E_UNSUPPORTED, "hidden_act"},
	{"{" OSS "\"swiglu_limit\":0}", E_FORMAT, "swiglu_limit"},
	{"{" MLA "\"scoring_func\":\"softmax\"}", E_UNSUPPORTED, "scoring_func"},
	{"{" MLA "\"topk_method\":\"greedy\"}", E_UNSUPPORTED, "topk_method"},
	{"{" MLA "\"attention_bias\":true}", E_UNSUPPORTED, "attention_bias"},
	{"{" MLA "\"qk_rope_head_dim\":17}", E_UNSUPPORTED, "qk_rope_head_dim"},
	{"{" DENSE ROPE ",\"architectures\":[\"Qwen3ForSequenceClassification\"]}",
	 E_UNSUPPORTED, "architectures"},
	{"{" DENSE "\"rope_scaling\":null}", E_MISSING, "rope_theta"},
	{"{\"model_type\":\"qwen3\"," ROPE "}", E_MISSING, "num_hidden_layers"},
	{"{" MOE ROPE "}", E_MISSING, "num_experts"},
	{"{" MOE ROPE ",\"num_experts\":1}", E_FORMAT, "num_experts_per_tok"},
	{"{" MOE ROPE ",\"num_experts\":8,\"mlp_only_layers\":[4]}", E_FORMAT,
	 "mlp_only_layers"},
	{"{" MOE ROPE ",\"num_experts\":8,\"mlp_only_layers\":1}", E_FORMAT,
	 "mlp_only_layers"},
	{"{" MOE ROPE ",\"num_experts\":8,\"norm_topk_prob\":1}", E_FORMAT,
	 "norm_topk_prob"},
	{"{" MOE ROPE ",\"num_experts\":8,\"shared_expert_intermediate_size\":64}",
	 E_UNSUPPORTED, "shared_expert_intermediate_size"},
	{"{" MOE ROPE ",\"num_experts\":8,\"head_dim\":33}", E_FORMAT, "head_dim"},
	{"{" MOE ROPE ",\"num_experts\":\"8\"}", E_FORMAT, "num_experts"},
	{"{" MOE ROPE ",\"num_experts\":1e9}", E_FORMAT, "num_experts"},
	{"{" MOE ROPE ",\"num_experts\":99999}", E_FORMAT, "num_experts"},
	{"{" DENSE "\"rope_theta\":\"x\"}", E_FORMAT, "rope_theta"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"rope_type\":\"spiral\",\"factor\":4}}",
	 E_UNSUPPORTED, "rope_scaling"},
	{"{" DENSE ROPE LONG("[1,2]", "[2,3]") "}}", E_MISSING,
	 "original_max_position_embeddings"},
	{"{" DENSE ROPE LONG("[1,2]", "[2,3]") ",\"original_max_position_embeddings\":32}}",
	 E_FORMAT, "short_factor"},
	{"{" DENSE ROPE LONG("[1,2]", "[2]") "}}", E_FORMAT, "long_factor"},
	{"{" DENSE ROPE LONG("[1,0]", "[2,3]") "}}", E_FORMAT, "short_factor"},
	{"{" DENSE ROPE LONG("[1,2]", "7") "}}", E_FORMAT, "long_factor"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":4}}",
	 E_MISSING, "short_factor"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"linear\"}}", E_MISSING, "factor"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
	 "\"llama_4_scaling_beta\":0.1}}", E_UNSUPPORTED, "llama_4_scaling_beta"},
	{"{" MISTRAL ROPE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
	 "\"llama_4_scaling_beta\":0.1}}", E_UNSUPPORTED, "llama_4_scaling_beta"},
	{"{\"model_type\":\"ministral3\"," SIZES "\"rope_parameters\":{\"rope_theta\":1e6,"
	 "\"rope_type\":\"default\",\"llama_4_scaling_beta\":0.1}}", E_UNSUPPORTED,
	 "llama_4_scaling_beta"},
	{"{" DENSE ROPE ",\"rms_norm_eps\":null}", E_MISSING, "rms_norm_eps"},
	{"{" DENSE ROPE ",\"no_rope_layers\":[0,1]}", E_UNSUPPORTED, "no_rope_layers"},
	{OF("smollm3") ",\"no_rope_layers\":[0]}", E_FORMAT, "no_rope_layers"},
	{OF("smollm3") ",\"no_rope_layers\":[0,2]}", E_FORMAT, "no_rope_layers"},
	{OF("smollm3") ",\"no_rope_layer_interval\":0}", E_FORMAT,
	 "no_rope_layer_interval"},
	{OF("granite") ",\"residual_multiplier\":0}", E_FORMAT, "residual_multiplier"},
	{"{\"model_type\":\"minimax_m2\",\"num_local_experts\":8,"
	 "\"num_experts_per_tok\":2,\"rotary_dim\":16,\"qk_norm_type\":\"per_head\","
	 SIZES ROPE "}", E_UNSUPPORTED, "qk_norm_type"},
	{OF("llama") ",\"residual_multiplier\":0.2}", E_UNSUPPORTED, "residual_multiplier"},
	{"{" DENSE ROPE ",\"clip_qkv\":8.0}", E_UNSUPPORTED, "clip_qkv"},
	{"{" DENSE ROPE ",\"is_causal\":false}", E_UNSUPPORTED, "is_causal"},
	{"{" MOE ROPE ",\"num_experts\":8,\"routed_scaling_factor\":2.5}",
	 E_UNSUPPORTED, "routed_scaling_factor"},
	{"{" NEXT "\"output_gate_type\":\"sigmoid\"}", E_UNSUPPORTED,
	 "output_gate_type"},
	{"{" MLA "\"mlp_layer_types\":[\"dense\"]}", E_FORMAT, "mlp_layer_types"},
	{"{" MLA "\"mlp_layer_types\":[\"dense\",\"sparse\",\"x\",\"dense\"]}",
	 E_UNSUPPORTED, "mlp_layer_types"},
	{"{" MLA "\"index_topk\":2048}", E_UNSUPPORTED, "index_topk"},
	{"{" SPARSE("32") "\"index_topk\":0}", E_FORMAT, "index_topk"},
	{"{" SPARSE("8") "\"index_topk\":64}", E_FORMAT, "index_head_dim"},
	{"{" SPARSE("32") "\"index_topk\":64,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
	 "\"mscale\":1.0,\"mscale_all_dim\":0.5}}", E_UNSUPPORTED, "rope_parameters"},
	{"{" OSS "\"experts_per_token\":4}", E_FORMAT, "experts_per_token"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}}",
	 E_FORMAT, "factor"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":0.5}}",
	 E_FORMAT, "factor"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
	 "\"beta_fast\":1,\"beta_slow\":2}}", E_FORMAT, "beta_slow"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
	 "\"low_freq_factor\":1,\"high_freq_factor\":4}}", E_MISSING,
	 "original_max_position_embeddings"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
	 "\"low_freq_factor\":4,\"high_freq_factor\":4,"
	 "\"original_max_position_embeddings\":64}}", E_FORMAT, "low_freq_factor"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"
	 "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":3}}", E_FORMAT,
	 "rope_scaling"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"factor\":2}}", E_UNSUPPORTED,
	 "rope_scaling"},
	{"{" DENSE "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e4,"
	 "\"rope_type\":\"default\"}}}", E_UNSUPPORTED, "rope_parameters"},
	{"{" DENSE "\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":"
	 "\"default\",\"partial_rotary_factor\":0.5}}", E_UNSUPPORTED,
	 "partial_rotary_factor"},
	{"{" GLM "\"n_group\":1,\"topk_group\":1}", E_MISSING, "partial_rotary_factor"},
	{"{" GLM "\"n_group\":1,\"topk_group\":1,\"partial_rotary_factor\":2}", E_FORMAT,
	 "partial_rotary_factor"},
	{"{" GLM "\"n_group\":1,\"topk_group\":1,\"partial_rotary_factor\":0.1}",
	 E_FORMAT, "partial_rotary_factor"},
	{"{" GLM "\"n_group\":3,\"topk_group\":1}", E_FORMAT, "n_group"},
	{"{" GLM "\"n_group\":2,\"topk_group\":3}", E_FORMAT, "n_group"},
	{"{" GLM "\"n_group\":8,\"topk_group\":1}", E_FORMAT, "n_group"},
	{"{" GLM "\"n_group\":1,\"topk_group\":1,\"scoring_func\":\"softmax\"}",
	 E_UNSUPPORTED, "scoring_func"},
	{"{" GLM "\"topk_group\":1}", E_MISSING, "n_group"},
	{"{" MOE ROPE ",\"num_experts\":8,\"scoring_func\":\"sigmoid\"}", E_UNSUPPORTED,
	 "scoring_func"},
	{"{" DENSE "\"rope_parameters\":7}", E_FORMAT, "rope_parameters"},
	{"{" DENSE ROPE ",\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":"
	 "\"default\"}}", E_FORMAT, "rope_theta"},
	{"{" DENSE ROPE ",\"hidden_act\":\"gelu\"}", E_UNSUPPORTED, "hidden_act"},
	{"{" DENSE ROPE ",\"hidden_act\":\"sil\"}", E_UNSUPPORTED, "hidden_act"},
	{"{" QWEN2 ROPE ",\"attention_bias\":true}", E_UNSUPPORTED,
	 "attention_bias"},
	{"{" DENSE ROPE ",\"attention_bias\":1}", E_FORMAT, "attention_bias"},
	{"{" MOE ROPE ",\"num_experts\":8,\"use_sliding_window\":true}",
	 E_UNSUPPORTED, "use_sliding_window"},
	{"{" DENSE ROPE ",\"use_sliding_window\":1}", E_FORMAT,
	 "use_sliding_window"},
	{"{" DENSE ROPE ",\"use_sliding_window\":true,\"sliding_window\":0}", E_FORMAT,
	 "sliding_window"},
	{"{" DENSE ROPE ",\"use_sliding_window\":true,\"sliding_window\":4,"
	 "\"layer_types\":[\"full_attention\"]}", E_FORMAT, "layer_types"},
	{"{" DENSE ROPE ",\"use_sliding_window\":true,\"sliding_window\":4,"
	 "\"layer_types\":[\"full_attention\",\"chunked_attention\"]}",
	 E_UNSUPPORTED, "layer_types"},
	{"{" MISTRAL ROPE ",\"sliding_window\":4,\"layer_types\":[\"full_attention\"]}",
	 E_UNSUPPORTED, "layer_types"},
	{"{" MISTRAL "\"x\":1}", E_MISSING, "rope_theta"},
	{"{\"model_type\":\"qwen3_omni_moe\"}", E_MISSING, "thinker_config"},
	{"{\"model_type\":\"qwen3_omni_moe\",\"thinker_config\":{}}", E_MISSING, "text_config"},
	{"{\"model_type\":\"qwen3_omni_moe\",\"thinker_config\":{\"text_config\":7}}",
	 E_FORMAT, "text_config"},
	{"{\"model_type\":\"qwen3_omni_moe\",\"thinker_config\":{\"text_config\":"
	 "{\"model_type\":\"qwen3\"}}}", E_UNSUPPORTED, "model_type"},
	{"{\"model_type\":\"qwen3_asr\"}", E_MISSING, "text_config"},
	{"{\"model_type\":\"voxtral\"}", E_MISSING, "text_config"},
	{"{\"model_type\":\"voxtral\",\"text_config\":{\"model_type\":\"qwen3\"}}", E_UNSUPPORTED,
	 "model_type"},
	{"{" DENSE ROPE ",\"partial_rotary_factor\":0.25}", E_UNSUPPORTED,
	 "partial_rotary_factor"},
	{"{" DENSE ROPE ",\"final_logit_softcapping\":30.0}", E_UNSUPPORTED,
	 "final_logit_softcapping"},
	{"{" DENSE ROPE ",\"layer_types\":[\"full_attention\","
	 "\"sliding_attention\"]}", E_UNSUPPORTED, "layer_types"},
	{"{" DENSE ROPE ",\"torch_dtype\":\"float8_e4m3fn\"}", E_UNSUPPORTED,
	 "dtype"},
	{"{" DENSE ROPE ",\"eos_token_id\":512}", E_FORMAT, "eos_token_id"},
	{"{" DENSE ROPE ",\"eos_token_id\":[1,\"2\"]}", E_FORMAT, "eos_token_id"},
	{"{" DENSE ROPE ",\"num_key_value_heads\":3}", E_FORMAT,
	 "num_key_value_heads"},
};

static void test_hybrid(void)
{
	is_int(read_config("{" NEXT "\"head_dim\":64}"), OK, "qwen3_next: %s", fail.text);
	ok(c.is_linear && c.n_linear == 3 && c.is_linear[0] && !c.is_linear[3],
	   "every fourth layer is attention");
	ok(c.norm_plus_one && c.norm_topk && c.shared_dim == 64 && c.n_rot == 16, "its switches");
	is_int((int)model_delta_channels(&c), 2 * 64 + 128, "channels");
	is_int((int)model_kv_bytes(&c, DTYPE_F16), 2 * 2 * 2 * 64, "one layer has a cache");
	is_int((int)model_state_numbers(&c), 3 * (4 * 32 * 32 + 256 * 3), "a state's size");
	is_int(read_config("{" NEXT "\"layer_types\":[\"full_attention\","
			   "\"linear_attention\",\"full_attention\","
			   "\"linear_attention\"]}"), OK, "layer_types: %s", fail.text);
	ok(c.n_linear == 2 && !c.is_linear[0] && c.is_linear[1], "say which");
	is_int(read_config("{\"model_type\":\"qwen3_5\",\"text_config\":{"
			   "\"model_type\":\"qwen3_5_text\"," SIZES ROPE "," DELTA
			   "\"full_attention_interval\":2}}"), OK,
	       "the text within qwen3_5: %s", fail.text);
	is_str(c.body, "model.language_model.", "where its tensors are");
	is_int(c.n_linear, 1, "full_attention_interval");
	is_int(read_config("{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":true,"
			   "\"text_config\":{" SIZES ROPE "," DELTA
			   "\"tie_word_embeddings\":false}}"), OK, "a tied head: %s",
	       fail.text);
	ok(c.tied_embeddings, "by the wrapper's word");
	is_int(read_config("{" NEXT "\"rope_scaling\":{\"rope_type\":\"yarn\","
			   "\"factor\":4,\"original_max_position_embeddings\":4096}}"),
	       OK, "yarn of a part of each head: %s", fail.text);
	ok(c.ropes[0].kind == ROPE_YARN && c.n_rot == 8 && c.max_ctx == 16384, "its sizes");
}

#define QWEN4 "\"model_type\":\"qwen4_exp_text\"," THINKER "\"num_experts\":8," \
	"\"shared_expert_intermediate_size\":64," ROPE "," DELTA "\"indexer_n_heads\":4," \
	"\"indexer_head_dim\":64,\"indexer_compress_ratio\":4,"

static void test_qwen4(void)
{
	is_int(read_config("{" QWEN4 "\"head_dim\":64,\"indexer_budget\":64}"), OK,
	       "qwen4_exp_text: %s", fail.text);
	ok(c.streams.count == 4 && c.streams.rank == 320 && c.index.heads == 4 &&
		   c.index.budget == 64 && c.index.ratio == 4 && c.n_linear == 3 &&
		   c.ngram.n_tables == 0 && !c.delta.sigmoid_gate,
	   "its streams and its indexer");
	is_int((int)model_kv_bytes(&c, DTYPE_F16), 2 * (2 * 2 * 64 + 64 + 16),
	       "keys of the indexer count");
	is_int(read_config("{" QWEN4 "\"head_dim\":64,\"indexer_budget\":64,"
			   "\"eos_token_id\":[9,8],\"ple_layer_ids\":[3,1],"
			   "\"ple_embed_dim\":64,\"output_gate_type\":\"sigmoid\","
			   "\"layer_types\":[\"linear_attention\",\"indexed_attention\","
			   "\"linear_attention\",\"full_attention\"]}"), OK,
	       "with n-grams: %s", fail.text);
	ok(c.ngram.n_tables == 2 && c.ngram.of[0] == 0 && c.ngram.of[1] == -1 &&
		   c.ngram.of[2] == 1 && c.ngram.eos == 9 && c.ngram.dim == 64 &&
		   c.delta.sigmoid_gate && c.n_linear == 2,
	   "in the first and the third layer");
	is_int(model_ngram_width(&c), 10, "inputs of their convolution");
	static const struct {
		const char *more, *param;
	} bad[] = {
		{"\"indexer_budget\":63", "indexer_budget"},
		{"\"indexer_budget\":64,\"indexer_kv_heads\":2", "indexer_kv_heads"},
		{"\"indexer_budget\":64,\"output_gate_type\":\"tanh\"", "output_gate_type"},
		{"\"indexer_budget\":64,\"eos_token_id\":9,\"ple_layer_ids\":[4]",
		 "ple_layer_ids"},
		{"\"indexer_budget\":64,\"ple_layer_ids\":[1]", "eos_token_id"},
		{"\"indexer_budget\":64,\"eos_token_id\":9,\"ple_layer_ids\":[1],"
		 "\"ple_embed_dim\":60", "ple_embed_dim"},
		{"\"indexer_budget\":64,\"eos_token_id\":9,\"ple_layer_ids\":[1],"
		 "\"ple_embed_dim\":64,\"ple_conv_kernel_size\":8", "ple_conv_kernel_size"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char text[2000];
		snprintf(text, sizeof text, "{" QWEN4 "\"head_dim\":64,%s}", bad[i].more);
		ok(read_config(text) != OK && strcmp(fail.param, bad[i].param) == 0,
		   "%s is refused: %s", bad[i].param, fail.text);
	}
}

static void test_oss_and_mla(void)
{
	is_int(read_config("{" OSS "\"attention_bias\":true,\"sliding_window\":128}"), OK,
	       "gpt_oss: %s", fail.text);
	ok(c.qkv_bias && c.o_bias &&
		   c.norm_topk && c.expert_dim == 384 && c.act.limit == 7,
	   "its switches");
	ok(c.is_windowed && c.is_windowed[0] && !c.is_windowed[1],
	   "every other layer has a window");
	is_int(read_config("{" MLA "\"q_lora_rank\":48}"), OK, "deepseek_v3: %s",
	       fail.text);
	ok(c.mla.kv_lora == 64 && c.q_lora == 48 && c.head_dim == 48 && c.n_rot == 16 &&
		   c.mla.v_dim == 24 && c.mla.is_interleaved && c.shared_dim == c.expert_dim,
	   "its sizes");
	is_int((int)model_kv_bytes(&c, DTYPE_F32), 4 * 4 * (64 + 16), "one key a layer");
	is_int(read_config("{" SPARSE("32") "\"index_topk\":64,\"layer_types\":["
			   "\"indexed_attention\",\"indexed_attention\",\"indexed_attention\","
			   "\"indexed_attention\"]}"), OK, "deepseek_v32: %s", fail.text);
	ok(c.index.heads == 4 && c.index.dim == 32 && c.index.budget == 64 &&
		   c.index.ratio == 1 && model_layer_kv_numbers(&c, 0) == 64 + 16 + 32,
	   "its indexer");
	is_int(read_config("{" MLA "\"q_lora_rank\":null,\"rope_interleave\":false}"), OK,
	       "without q_lora_rank: %s", fail.text);
	ok(c.q_lora == 0 && !c.mla.is_interleaved, "q is one projection");
	is_int(read_config("{\"model_type\":\"glm4_moe_lite\"," THINKER ROPE "," GROUPED
			   "\"n_group\":1,\"topk_group\":1,\"kv_lora_rank\":64,"
			   "\"v_head_dim\":24,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,"
			   "\"partial_rotary_factor\":1.0,\"mlp_layer_types\":[\"dense\","
			   "\"sparse\",\"dense\",\"sparse\"]}"), OK, "glm4_moe_lite: %s",
	       fail.text);
	ok(c.n_dense_layers == 2 && c.dense_layers[1] == 2, "mlp_layer_types");
	is_int(read_config("{" MLA "\"rms_norm_eps\":1e-3}"), OK, "another eps: %s",
	       fail.text);
	is_near(c.mla.eps, 1e-6, 1e-12, "that of the compressed key stays");
}

/* What its files leave out is as in Gemma3TextConfig. */
static void test_gemma3(void)
{
	is_int(read_config("{\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],"
			   "\"text_config\":{\"model_type\":\"gemma3_text\","
			   "\"hidden_size\":2560,\"intermediate_size\":10240,"
			   "\"num_hidden_layers\":12,\"sliding_window\":1024,"
			   "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}}}"),
	       OK, "gemma3: %s", fail.text);
	ok(c.n_heads == 8 && c.n_kv_heads == 4 && c.head_dim == 256 && c.n_vocab == 262208 &&
		   c.tied_embeddings && c.norm_plus_one && c.n_eos == 2,
	   "its defaults");
	ok(c.act.kind == ACT_GELU_TANH, "gelu");
	is_near(c.embed_scale, 50.5, 0, "the root of 2560 in bfloat16");
	is_near(c.query_scalar, 256, 0, "query_pre_attn_scalar");
	ok(c.window == 1024 && c.is_windowed[4] && !c.is_windowed[5] && c.is_windowed[6] &&
		   !c.is_windowed[11], "five windows, then all");
	ok(c.n_ropes == 2 && c.rope_of[4] == 1 && c.rope_of[5] == 0, "two ropes");
	ok(c.ropes[0].kind == ROPE_LINEAR && c.ropes[0].factor == 8 &&
		   c.ropes[0].theta == 1e6 && c.ropes[1].kind == ROPE_DEFAULT &&
		   c.ropes[1].theta == 1e4, "stretched where all is seen");
	is_str(c.prefix, "language_model.", "its tensors");
	is_int(read_config("{" GEMMA "\"_sliding_window_pattern\":2,\"rope_parameters\":{"
			   "\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":5e5},"
			   "\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2,"
			   "\"rope_theta\":2e4}}}"), OK, "a rope for each type: %s", fail.text);
	ok(c.ropes[0].theta == 5e5 && c.ropes[1].theta == 2e4 &&
		   c.ropes[1].kind == ROPE_LINEAR && !c.is_windowed[1], "they are kept apart");
	is_int(read_config("{" GEMMA "\"rope_parameters\":{\"sliding_attention\":{"
			   "\"rope_type\":\"default\",\"rope_theta\":1e4,"
			   "\"partial_rotary_factor\":0.5},\"full_attention\":{"
			   "\"rope_type\":\"default\",\"rope_theta\":1e4}}}"),
	       E_UNSUPPORTED, "of a part of a head");
	is_int(read_config("{" GEMMA "\"final_logit_softcapping\":30.0}"), E_UNSUPPORTED,
	       "capped logits, as Gemma 2 has");
}

#define GEMMA4 "\"model_type\":\"gemma4_text\"," THINKER

/* As 26B-A4B is published, and as E2B; what they leave out is as in Gemma4TextConfig. */
static void test_gemma4(void)
{
	is_int(read_config("{\"model_type\":\"gemma4\",\"text_config\":{"
			   "\"model_type\":\"gemma4_text\",\"hidden_size\":2560,"
			   "\"intermediate_size\":2112,\"num_hidden_layers\":12,"
			   "\"num_global_key_value_heads\":2,\"attention_k_eq_v\":true,"
			   "\"hidden_size_per_layer_input\":0,\"enable_moe_block\":true,"
			   "\"num_experts\":128,\"top_k_experts\":8,"
			   "\"use_bidirectional_attention\":\"vision\","
			   "\"moe_intermediate_size\":704,\"final_logit_softcapping\":30.0}}"),
	       OK, "gemma4: %s", fail.text);
	ok(model_head_dim(&c, 0) == 256 && model_head_dim(&c, 5) == 512 &&
		   model_kv_heads(&c, 0) == 4 && model_kv_heads(&c, 5) == 2,
	   "heads of two sizes");
	ok(c.gemma4.has_experts && c.n_experts == 128 && c.n_experts_used == 8 && c.norm_topk &&
		   c.gemma4.keys_are_values && c.logit_cap == 30 &&
		   c.query_scalar == 1 && !c.norm_plus_one && c.gemma4.embed_dim == 0,
	   "experts beside a dense part");
	ok(c.window == 512 && c.is_windowed[4] && !c.is_windowed[5] && !c.is_windowed[11],
	   "five windows, then all");
	ok(c.ropes[0].kind == ROPE_PART && c.ropes[0].part == 0.25 && c.ropes[0].n_rot == 512 &&
		   c.ropes[1].kind == ROPE_DEFAULT && c.n_rot == 256, "two ropes");
	is_near(c.embed_scale, 50.5, 0, "the root of 2560 in bfloat16");
	is_str(c.body, "model.language_model.", "its tensors");
	is_int((int)model_kv_bytes(&c, DTYPE_F16), 2 * 2 * (10 * 4 * 256 + 2 * 2 * 512),
	       "its cache");
	is_int(read_config("{" GEMMA4 "\"num_kv_shared_layers\":2,"
			   "\"use_double_wide_mlp\":true,\"layer_types\":["
			   "\"sliding_attention\",\"full_attention\",\"sliding_attention\","
			   "\"sliding_attention\"],\"per_layer_config\":{"
			   "\"1\":{\"head_dim\":64},\"3\":{\"head_dim\":64}}}"),
	       OK, "layers that share: %s", fail.text);
	ok(model_kv_layer(&c, 1) == 1 && model_kv_layer(&c, 2) == 0 &&
		   model_kv_layer(&c, 3) == 1, "with the last of their kind; the last sees all");
	ok(model_ffn_dim(&c, 1) == c.ffn_dim && model_ffn_dim(&c, 2) == 2 * c.ffn_dim &&
		   c.gemma4.embed_dim == 256 && c.gemma4.embed_rows == 262144 && c.logit_cap == 0 &&
		   c.n_experts == 0 && model_head_dim(&c, 1) == 64, "and are wider");
	is_int(read_config("{" GEMMA4 "\"num_kv_shared_layers\":3,\"layer_types\":["
			   "\"sliding_attention\",\"sliding_attention\","
			   "\"sliding_attention\",\"full_attention\"]}"),
	       E_FORMAT, "none that sees all has keys");
	is_int(read_config("{" GEMMA4 "\"per_layer_config\":{\"0\":{\"head_dim\":64}}}"),
	       E_UNSUPPORTED, "a layer alone");
	is_int(read_config("{" GEMMA4 "\"use_bidirectional_attention\":\"all\"}"),
	       E_UNSUPPORTED, "attention both ways");
	is_int(read_config("{" GEMMA4 "\"enable_moe_block\":true}"), E_MISSING,
	       "no number of experts");
	is_int(read_config("{" GEMMA4 "\"sliding_window\":null}"), E_MISSING, "no window");
}

#define SPACE_OF(types) "{\"model_type\":\"granitemoehybrid\",\"num_hidden_layers\":3," \
	"\"hidden_size\":128,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS "\"intermediate_size\":96," \
	"\"shared_intermediate_size\":160,\"mamba_n_heads\":8,\"mamba_d_state\":16," \
	"\"mamba_d_head\":\"auto\",\"residual_multiplier\":0.5," types
#define SPACES "\"layer_types\":[\"mamba\",\"attention\",\"linear_attention\"]"

#define BAMBA_OF(more) "{\"model_type\":\"bamba\",\"num_hidden_layers\":3," \
	"\"hidden_size\":128,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"mamba_n_heads\":8,\"mamba_d_state\":16," \
	"\"mamba_d_head\":\"auto\"" more "}"

/* Layers that attend by their numbers; half of a head rotates. */
static void test_bamba(void)
{
	is_int(read_config(BAMBA_OF(",\"attn_layer_indices\":[1]")), OK, "Bamba: %s", fail.text);
	ok(c.is_linear[0] && !c.is_linear[1] && c.is_linear[2] && c.n_linear == 2,
	   "one of three layers attends");
	ok(c.ffn_dim == 96 && c.n_experts == 0 && c.delta.v_dim == 32, "its sizes");
	ok(!c.is_unrotated && model_n_rot(&c, 0) == 16, "half of a head rotates");
	is_int(read_config(BAMBA_OF(",\"attn_layer_indices\":[3]")), E_FORMAT,
	       "a layer too far: %s", fail.text);
	is_int(read_config(BAMBA_OF(",\"attn_layer_indices\":[\"1\"]")), E_FORMAT,
	       "no number: %s", fail.text);
}

/* Granite 4: layers with a state, the old names of their types, no rotation. */
static void test_space(void)
{
	is_int(read_config(SPACE_OF(SPACES ",\"num_local_experts\":0}")), OK, "dense: %s",
	       fail.text);
	ok(c.is_linear[0] && !c.is_linear[1] && c.is_linear[2] && c.n_linear == 2,
	   "two of three layers");
	ok(c.delta.v_heads == 8 && c.delta.v_dim == 32 && c.delta.k_heads == 1 &&
		   c.delta.k_dim == 16 && c.delta.conv_width == 4 && c.delta.has_conv_bias,
		   "its sizes");
	ok(c.ffn_dim == 160 && c.n_experts == 0 && c.shared_dim == 0, "the shared part alone");
	ok(c.is_unrotated && c.is_unrotated[1], "no rotation");
	is_near(c.delta.gate_eps, 1e-6, 1e-12, "the eps of the norm behind the gate");
	is_near(c.norm_eps, 4e-6, 1e-12, "those of a layer are of the smaller residual");
	is_int((int)model_state_numbers(&c), 2 * (8 * 32 * 16 + (2 * 16 + 256) * 3),
	       "its states");
	is_int(read_config(SPACE_OF(SPACES ",\"num_local_experts\":4,"
			   "\"num_experts_per_tok\":2,\"position_embedding_type\":\"rope\","
			   "\"time_step_limit\":[0.0,{\"__float__\":\"Infinity\"}]}")), OK,
	       "with experts: %s", fail.text);
	ok(c.n_experts == 4 && c.expert_dim == 96 && c.shared_dim == 160 &&
		   !c.is_unrotated && c.norm_topk, "beside a shared one, and it rotates");
	is_int(read_config(SPACE_OF(SPACES ",\"num_local_experts\":0,"
			   "\"time_step_limit\":[0.0,0.1]}")), E_UNSUPPORTED, "limited steps");
	is_int(read_config(SPACE_OF(SPACES ",\"num_local_experts\":0,"
			   "\"mamba_proj_bias\":true}")), E_UNSUPPORTED, "a bias");
	is_int(read_config(SPACE_OF("\"layer_types\":[\"mamba\",\"conv\",\"mamba\"],"
			   "\"num_local_experts\":0}")), E_UNSUPPORTED, "another type");
}

#define NEMOTRON_OF(rest) "{\"model_type\":\"nemotron_h\",\"hidden_size\":64," \
	"\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":512," \
	"\"max_position_embeddings\":4096,\"layer_norm_epsilon\":1e-5," \
	"\"mamba_num_heads\":8,\"mamba_head_dim\":16,\"ssm_state_size\":32," \
	"\"n_groups\":2,\"mlp_hidden_act\":\"relu2\"," rest "}"
#define PATTERN(letters) "\"hybrid_override_pattern\":\"" letters "\""

/* Nemotron-H: layers of one part. */
static void test_nemotron(void)
{
	is_int(read_config(NEMOTRON_OF(PATTERN("M-*-M") ",\"intermediate_size\":96")), OK,
	       "dense: %s", fail.text);
	ok(c.n_layers == 5 && c.n_linear == 2 && c.is_linear[0] && c.is_linear[4] &&
		   model_attends(&c, 2) && !model_attends(&c, 1) && !model_attends(&c, 0),
	   "kinds of layers");
	ok(!model_has_part(&c, 1, PART_MIXER) && model_has_part(&c, 1, PART_MLP) &&
		   !model_has_part(&c, 0, PART_MLP) && model_has_part(&c, 5, PART_MLP),
	   "parts of layers");
	ok(c.act.kind == ACT_RELU && c.n_experts == 0 && c.ffn_dim == 96 &&
		   c.is_unrotated[2], "no gate, no experts, no rotation");
	is_int((int)model_kv_bytes(&c, DTYPE_F16), 2 * 2 * 2 * 16, "keys and values of one layer");
	is_int((int)model_kv_bytes(&c, DTYPE_I8), 2 * 2 * (16 + 2), "in bytes, with scales");
	is_near(c.delta.gate_eps, 1e-5, 1e-12, "eps");
	is_int(read_config(NEMOTRON_OF("\"layers_block_type\":[\"mamba\",\"moe\"],"
			   "\"n_routed_experts\":4,\"num_experts_per_tok\":2,"
			   "\"moe_intermediate_size\":24,\"routed_scaling_factor\":2.5,"
			   "\"moe_shared_expert_intermediate_size\":40")), OK, "experts: %s",
	       fail.text);
	ok(c.n_experts == 4 && c.shared_dim == 40 && c.n_groups == 1 && c.norm_topk &&
		   c.n_dense_layers == 0 && c.routed_scale == 2.5f, "their settings");
	is_int(read_config(NEMOTRON_OF(PATTERN("M-X") ",\"intermediate_size\":96")),
	       E_UNSUPPORTED, "another kind");
	is_int(read_config(NEMOTRON_OF(PATTERN("M-"))), E_MISSING, "no width");
	is_int(read_config(NEMOTRON_OF(PATTERN("ME"))), E_MISSING, "no experts");
	is_int(read_config(NEMOTRON_OF(PATTERN("ME") ",\"n_routed_experts\":4,"
			   "\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,"
			   "\"n_shared_experts\":0,\"moe_latent_size\":32")), OK,
	       "experts between projections: %s", fail.text);
	ok(c.latent_dim == 32 && c.shared_dim == 0, "their width");
	is_int(read_config(NEMOTRON_OF(PATTERN("ME") ",\"n_routed_experts\":4,"
			   "\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,"
			   "\"n_shared_experts\":0,\"moe_latent_size\":0")), E_FORMAT,
	       "no width between them");
	is_int(read_config(NEMOTRON_OF("\"x\":1")), E_MISSING, "no kinds");
}

/* Chunks, layers without rotation, widths and layers of experts. */
static void test_llama4(void)
{
#define LLAMA4(more) "{\"model_type\":\"llama4_text\",\"num_hidden_layers\":4," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"intermediate_size_mlp\":128,\"num_local_experts\":8," \
	"\"num_experts_per_tok\":1" more "}"
	is_int(read_config(LLAMA4("")), OK, "llama4: %s", fail.text);
	ok(c.expert_dim == 96 && c.shared_dim == 96 && c.ffn_dim == 128 &&
		   c.sparse_step == 1 && !c.norm_topk && c.n_groups == 1, "its experts");
	ok(c.window == 8192 && c.is_windowed[2] && !c.is_windowed[3] &&
		   c.is_unrotated[3] && !c.is_unrotated[2], "chunks where it rotates");
	ok(c.llama4.has_norms && c.llama4.attn_temp_every == 8192 &&
		   c.llama4.attn_temp_scale == 0.1f, "its attention");
	is_int(read_config(LLAMA4(",\"attention_chunk_size\":null,\"use_qk_norm\":false,"
				  "\"attn_temperature_tuning\":false,\"no_rope_layers\":[],"
				  "\"interleave_moe_layer_step\":2")), OK, "other: %s",
	       fail.text);
	ok(!c.is_windowed && !c.llama4.has_norms && c.llama4.attn_temp_every == 0 &&
		   c.sparse_step == 2, "none of these");
	is_int(read_config(LLAMA4(",\"moe_layers\":[1,3],\"attention_chunk_size\":16,"
				  "\"layer_types\":[\"full_attention\",\"chunked_attention\","
				  "\"full_attention\",\"full_attention\"]")), OK, "lists: %s",
	       fail.text);
	ok(c.n_dense_layers == 2 && c.dense_layers[0] == 0 && c.dense_layers[1] == 2 &&
		   !c.is_windowed[0] && c.is_windowed[1], "as they say");
	is_int(read_config(LLAMA4(",\"attention_chunk_size\":100")), E_UNSUPPORTED,
	       "chunks of no power of two");
	is_int(read_config(LLAMA4(",\"attention_chunk_size\":\"1\"")), E_FORMAT, "no number");
	is_int(read_config(LLAMA4(",\"attn_temperature_tuning\":\"4\"")), E_FORMAT, "no choice");
	is_int(read_config(LLAMA4(",\"layer_types\":[\"sliding_attention\"]")), E_FORMAT,
	       "types of other layers");
#undef LLAMA4
}

/* Lists of one number, and a rope whose base alone is stretched. */
static void test_hunyuan(void)
{
#define HUNYUAN(more) "{\"model_type\":\"hunyuan_v1_moe\",\"num_hidden_layers\":2," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"num_experts\":8," more
	is_int(read_config(HUNYUAN("\"moe_topk\":[2,2],\"rope_theta\":10000.0,"
				   "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":1000.0,"
				   "\"factor\":1.0}}")), OK, "hunyuan: %s", fail.text);
	ok(c.n_experts == 8 && c.n_experts_used == 2 && c.expert_dim == 96 &&
		   c.shared_dim == 96, "its settings");
	ok(c.ropes[0].kind == ROPE_DEFAULT && c.ropes[0].theta > 26.8e6 &&
		   c.ropes[0].theta < 26.9e6, "10000 1000^(16 / 14): %g", c.ropes[0].theta);
	is_int(read_config(HUNYUAN("\"moe_topk\":[2,3]}")), E_FORMAT, "layers that differ");
#undef HUNYUAN
}

/* Which layers have experts. */
static void test_ernie(void)
{
#define ERNIE(more) "{\"model_type\":\"ernie4_5_moe\",\"num_hidden_layers\":6," \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," EPS \
	"\"intermediate_size\":96,\"moe_num_experts\":8,\"moe_k\":2," \
	"\"moe_intermediate_size\":24" more "}"
	is_int(read_config(ERNIE("")), OK, "ernie: %s", fail.text);
	ok(c.n_dense_layers == 1 && c.dense_layers[0] == 0 && c.shared_dim == 48 &&
		   c.norm_topk && c.ropes[0].theta == 500000, "its settings");
	is_int(read_config(ERNIE(",\"moe_layer_start_index\":2,\"moe_layer_end_index\":4,"
				 "\"moe_layer_interval\":2,\"moe_num_shared_experts\":0")), OK,
	       "some layers: %s", fail.text);
	ok(c.n_dense_layers == 5 && c.dense_layers[3] == 4 && c.shared_dim == 0,
	   "only the fourth has experts");
	is_int(read_config(ERNIE(",\"moe_layer_interval\":0")), E_FORMAT, "none");
	is_int(read_config(ERNIE(",\"use_bias\":true")), E_UNSUPPORTED, "biases");
#undef ERNIE
}

/* What is refused by name says why; what runs is not among that. */
static void test_missing(void)
{
	is_int(read_config("{\"model_type\":\"jamba\"}"), E_UNSUPPORTED, "jamba");
	ok(strstr(fail.text, "it would need Mamba layers") != NULL, "%s", fail.text);
	is_int(read_config("{\"model_type\":\"abacus\"}"), E_UNSUPPORTED, "abacus");
	ok(strstr(fail.text, "\"abacus\"") && strstr(fail.text, "docs/models.md"), "%s", fail.text);
	for (size_t i = 0; i < model_n_archs; i++)
		ok(!model_arch_needs(model_archs[i].model_type) &&
			   (!model_archs[i].gguf || !model_arch_needs(model_archs[i].gguf)),
		   "%s needs nothing", model_archs[i].model_type);
	ok(!model_arch_needs("lfm") && !model_arch_needs(""), "whole names alone");
}

static void test_faults(void)
{
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		enum status st = read_config(faults[i].text);
		if (!ok(st == faults[i].want &&
				!strcmp(fail.param, faults[i].param) &&
				strstr(fail.text, "config.json"),
			"%s at fault", faults[i].param))
			printf("# %s, %s: %s\n# in %s\n", status_name(st),
			       fail.param, fail.text, faults[i].text);
	}
}

#define BERT(type, more) "{\"model_type\":\"" type "\",\"num_hidden_layers\":2," \
	"\"hidden_size\":32,\"num_attention_heads\":4,\"intermediate_size\":48," \
	"\"vocab_size\":300,\"max_position_embeddings\":514," more "\"hidden_act\":"

static void test_encoders(void)
{
	is_int(read_config(BERT("xlm-roberta", "\"pad_token_id\":1,\"type_vocab_size\":1,")
			   "\"gelu\"}"), OK, "xlm-roberta: %s", fail.text);
	ok(c.is_encoder && c.encoder.is_bert && c.encoder.is_ungated && c.encoder.exact_gelu &&
		   c.encoder.n_places == 514 && c.encoder.first_place == 2 &&
		   c.max_ctx == 512 && c.encoder.n_types == 1 && c.qkv_bias &&
	   c.n_ropes == 0 && c.head_dim == 8 && !c.has_head, "its places begin late");
	is_int(read_config(BERT("bert", "\"pad_token_id\":0,") "\"gelu_new\"}"), OK, "bert");
	ok(!c.encoder.exact_gelu && c.encoder.first_place == 0 && c.max_ctx == 514 &&
		   c.encoder.n_types == 2,
	   "its places begin at once");
	is_int(read_config(BERT("nomic_bert", "\"rope_parameters\":{\"rope_theta\":1000,"
				"\"rope_type\":\"default\"},") "\"silu\"}"), OK, "nomic_bert");
	ok(!c.encoder.is_ungated && !c.qkv_bias && c.encoder.n_places == 0 && c.n_ropes == 1 &&
		   c.n_rot == 8 &&
	   c.ropes[0].theta == 1000, "with a gate and a rope");
	is_int(read_config(BERT("nomic_bert", "\"rotary_scaling_factor\":2,"
				"\"max_trained_positions\":256,") "\"silu\"}"), OK, "stretched");
	is_int(c.max_ctx, 256, "no further than it was trained");
	is_int(read_config("{" GEMMA ROPE ",\"query_pre_attn_scalar\":256,\"sliding_window\":16,"
			   "\"rope_local_base_freq\":1e4,\"sliding_window_pattern\":2,"
			   "\"use_bidirectional_attention\":true}"), OK, "gemma3: %s", fail.text);
	ok(c.is_encoder && !c.encoder.is_bert && c.window == 9, "its window is to both sides");
	static const struct {
		const char *text, *param;
	} refused[] = {
		{BERT("bert", "\"position_embedding_type\":\"relative_key\",") "\"gelu\"}",
		 "position_embedding_type"},
		{BERT("bert", "\"is_decoder\":true,") "\"gelu\"}", "is_decoder"},
		{BERT("bert", "") "\"relu\"}", "hidden_act"},
		{BERT("nomic_bert", "\"rotary_scaling_factor\":2,") "\"silu\"}",
		 "rotary_scaling_factor"},
		{BERT("nomic_bert", "\"prenorm\":true,") "\"silu\"}", "prenorm"},
		{"{" DENSE ROPE ",\"use_bidirectional_attention\":true}",
		 "use_bidirectional_attention"},
	};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		enum status st = read_config(refused[i].text);
		ok(st == E_UNSUPPORTED && strcmp(fail.param, refused[i].param) == 0,
		   "%s at fault: %s", refused[i].param, fail.text);
	}
}

static enum status read_defaults(const char *text, struct generation_defaults *d)
{
	json_t *root = text ? json_loads(text, 0, NULL) : NULL;
	fail = (struct fail){0};
	enum status st = model_defaults_read(root, &c, d, &fail);
	json_decref(root);
	return st;
}

static void test_defaults(void)
{
	struct generation_defaults d;
	c.n_vocab = 512;
	c.n_eos = 2;
	c.eos_ids[0] = 500;
	c.eos_ids[1] = 7;
	is_int(read_defaults(NULL, &d), OK, "no generation_config.json");
	ok(isnan(d.temperature) && isnan(d.top_p) && isnan(d.min_p) &&
		   isnan(d.repetition_penalty) && d.top_k == -1, "nothing given");
	ok(d.n_eos == 2 && d.eos_ids[0] == 500, "eos of config.json");
	is_int(read_defaults("{\"temperature\":0.6,\"top_k\":20,\"top_p\":0.95,"
			     "\"min_p\":null,\"repetition_penalty\":1.1,"
			     "\"eos_token_id\":[3,500]}", &d), OK, "all given");
	is_near(d.temperature, 0.6, 1e-6, "temperature");
	is_near(d.top_p, 0.95, 1e-6, "top_p");
	is_near(d.repetition_penalty, 1.1, 1e-6, "repetition_penalty");
	ok(d.top_k == 20 && isnan(d.min_p), "top_k; null is not given");
	ok(d.n_eos == 3 && d.eos_ids[0] == 3 && d.eos_ids[1] == 500 &&
		   d.eos_ids[2] == 7, "eos of both files, each once");
	is_int(read_defaults("{\"temperature\":-1}", &d), E_FORMAT, "out of range");
	is_str(fail.param, "temperature", "says which");
	is_int(read_defaults("{\"top_p\":\"x\"}", &d), E_FORMAT, "wrong type");
	is_int(read_defaults("{\"eos_token_id\":-1}", &d), E_FORMAT, "a bad id");
}

int main(void)
{
	arena_init(&arena);
	test_good();
	test_dense();
	test_rope();
	test_thinker();
	test_vision();
	test_more_dense();
	test_long();
	test_families();
	test_lfm2();
	test_attn_temp();
	test_grouped();
	test_hybrid();
	test_qwen4();
	test_oss_and_mla();
	test_gemma3();
	test_gemma4();
	test_space();
	test_bamba();
	test_nemotron();
	test_llama4();
	test_hunyuan();
	test_ernie();
	test_encoders();
	test_missing();
	test_faults();
	test_defaults();
	arena_deinit(&arena);
	return tap_done();
}
