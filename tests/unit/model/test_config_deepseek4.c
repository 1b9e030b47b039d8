/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of DeepSeek-V4, as published and as Transformers writes them.
 */
#include "tests/unit/model/config_text.h"

#define FOUR "\"model_type\":\"deepseek_v4\",\"num_hidden_layers\":4,\"hidden_size\":128," \
	"\"num_attention_heads\":4,\"vocab_size\":512,\"max_position_embeddings\":4096," \
	"\"num_experts_per_tok\":2,\"moe_intermediate_size\":96,\"n_routed_experts\":8," \
	"\"q_lora_rank\":48,\"o_lora_rank\":16,\"index_n_heads\":4,\"index_topk\":16," \
	"\"head_dim\":64,\"qk_rope_head_dim\":16,"
#define GROUPS "\"o_groups\":2,"
#define INDEX "\"index_head_dim\":32"
#define YARN ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4," \
	"\"original_max_position_embeddings\":1024"

static void test_good(void)
{
	is_int(read_config("{" FOUR GROUPS INDEX YARN "},\"compress_ratios\":[0,4,128,4,0],"
			   "\"num_hash_layers\":1}"), OK, "as published: %s", fail.text);
	ok(c.compress.of[0] == 0 && c.compress.of[1] == 4 && c.compress.of[2] == 128 &&
		   c.compress.heavy_ratio == 128 && c.compress.is_hashed[0] &&
		   !c.compress.is_hashed[1] && c.window == 128,
	   "its layers");
	ok(c.n_rot == 16 && c.n_ropes == 2 && c.ropes[0].kind == ROPE_YARN &&
		   c.ropes[0].attention_factor == 1 && c.ropes[0].theta == 160000 &&
		   c.ropes[1].kind == ROPE_DEFAULT && c.ropes[1].theta == 10000 &&
		   c.rope_of[0] == 1 && c.rope_of[1] == 0, "its ropes");
	ok(c.streams.count == 4 && c.streams.iters == 20 && c.shared_dim == c.expert_dim &&
		   c.act.kind == ACT_CLIPPED && c.act.limit == 10 &&
		   c.n_groups == 1 && c.norm_topk && c.n_kv_heads == 1,
	   "its switches");
	is_int((int)model_kv_bytes(&c, DTYPE_F16),
	       2 * (64 + 2 * (64 + 4 * 96 + 24) + 3 * 64 + 4), "its cache");
	is_int(read_config("{" FOUR GROUPS INDEX ",\"layer_types\":[\"sliding_attention\","
			   "\"compressed_sparse_attention\",\"heavily_compressed_attention\","
			   "\"sliding_attention\"],\"mlp_layer_types\":[\"hash_moe\",\"moe\","
			   "\"hash_moe\",\"moe\"],\"compress_rates\":{"
			   "\"compressed_sparse_attention\":8,"
			   "\"heavily_compressed_attention\":32}}"), OK, "by types: %s", fail.text);
	ok(c.compress.of[1] == 8 && c.compress.of[2] == 32 && c.compress.is_hashed[2] &&
		   !c.compress.is_hashed[3],
	   "its layers");
	is_int(read_config("{" FOUR GROUPS INDEX "}"), OK, "without lists: %s", fail.text);
	ok(c.compress.of[0] == 128 && c.compress.of[1] == 128 && c.compress.of[3] == 4 &&
		   c.compress.is_hashed[2] && !c.compress.is_hashed[3], "its layers");
}

static void test_bad(void)
{
	static const struct {
		const char *more;
		enum status st;
		const char *param;
	} bad[] = {
		{GROUPS INDEX ",\"compress_ratios\":[0,4,7,4]", E_FORMAT, "compress_ratios"},
		{GROUPS INDEX ",\"compress_ratios\":[0,4]", E_FORMAT, "compress_ratios"},
		{GROUPS INDEX ",\"layer_types\":[\"sliding_attention\"]", E_FORMAT, "layer_types"},
		{GROUPS INDEX ",\"layer_types\":[\"heavily_compressed_attention\",\"odd\","
		 "\"sliding_attention\",\"sliding_attention\"]", E_UNSUPPORTED, "layer_types"},
		{GROUPS INDEX ",\"mlp_layer_types\":[\"moe\",\"moe\",\"moe\",\"dense\"]",
		 E_UNSUPPORTED, "mlp_layer_types"},
		{GROUPS INDEX ",\"compress_rates\":{\"compressed_sparse_attention\":1}", E_FORMAT,
		 "compress_rates"},
		{GROUPS INDEX ",\"compress_rates\":7", E_FORMAT, "compress_rates"},
		{GROUPS INDEX ",\"compress_rates\":{\"heavily_compressed_attention\":4}",
		 E_UNSUPPORTED, "compress_rates"},
		{INDEX ",\"o_groups\":3", E_FORMAT, "o_groups"},
		{GROUPS INDEX ",\"num_key_value_heads\":2", E_UNSUPPORTED, "num_key_value_heads"},
		{GROUPS "\"index_head_dim\":8", E_FORMAT, "index_head_dim"},
		{GROUPS INDEX ",\"scoring_func\":\"sigmoid\"", E_UNSUPPORTED, "scoring_func"},
		{GROUPS INDEX ",\"norm_topk_prob\":false", E_UNSUPPORTED, "norm_topk_prob"},
		{GROUPS INDEX ",\"hidden_act\":\"gelu_pytorch_tanh\"", E_UNSUPPORTED, "hidden_act"},
		{GROUPS INDEX ",\"n_shared_experts\":2", E_FORMAT, "n_shared_experts"},
		{GROUPS INDEX ",\"hc_mult\":17", E_FORMAT, "hc_mult"},
		{GROUPS INDEX ",\"attention_bias\":true", E_UNSUPPORTED, "attention_bias"},
		{GROUPS INDEX YARN ",\"attention_factor\":1.2}", E_UNSUPPORTED, "rope_parameters"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char text[2000];
		snprintf(text, sizeof text, "{" FOUR "%s}", bad[i].more);
		ok(read_config(text) == bad[i].st && strcmp(fail.param, bad[i].param) == 0,
		   "%s is refused: %s", bad[i].param, fail.text);
	}
}

int main(void)
{
	arena_init(&arena);
	test_good();
	test_bad();
	arena_deinit(&arena);
	return tap_done();
}
