/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config.h"

#include <math.h>

#include "base/alloc.h"
#include "tests/tap.h"

#define ROPE "\"rope_theta\":1e6"
#define DENSE "\"model_type\":\"qwen3\",\"num_hidden_layers\":2," \
	"\"hidden_size\":128,\"num_attention_heads\":4," \
	"\"num_key_value_heads\":2,\"head_dim\":64,\"intermediate_size\":384," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096,"
#define MOE "\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":4," \
	"\"hidden_size\":128,\"num_attention_heads\":4," \
	"\"num_key_value_heads\":2,\"intermediate_size\":384," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096," \
	"\"num_experts_per_tok\":2,\"moe_intermediate_size\":96,"

static struct arena arena;
static struct model_config c;
static struct fail fail;

static enum status read_config(const char *text)
{
	json_t *root = json_loads(text, 0, NULL);
	if (!root)
		abort();
	fail = (struct fail){0};
	enum status st = model_config_read(root, &arena, &c, &fail);
	json_decref(root);
	return st;
}

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
	is_near(c.rope_theta, 1e6, 0, "rope_theta");
	is_near(c.norm_eps, 1e-6, 1e-12, "the default of rms_norm_eps");
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
	is_near(c.rope_theta, 5e5, 0, "rope_parameters.rope_theta");
	ok(c.n_eos == 2 && c.eos_ids[1] == 2, "a list of eos, each once");
	ok(c.dtype == DTYPE_F32 && c.bos_id == 7, "dtype, bos");
	is_int(read_config("{" DENSE ROPE ",\"rope_parameters\":{\"rope_theta\":"
			   "1000000,\"rope_type\":\"default\"}}"),
	       OK, "both spellings, agreeing");
	is_int(read_config("{" DENSE ROPE ",\"architectures\":[\"X\","
			   "\"Qwen3ForCausalLM\"]}"), OK, "one of the classes");
}

static const struct {
	const char *text;
	enum status want;
	const char *param;
} faults[] = {
	{"{}", E_MISSING, "model_type"},
	{"{\"model_type\":3}", E_FORMAT, "model_type"},
	{"{\"model_type\":\"llama\"}", E_UNSUPPORTED, "model_type"},
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
	{"{" DENSE ROPE ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}",
	 E_UNSUPPORTED, "rope_scaling"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
	 E_UNSUPPORTED, "rope_scaling"},
	{"{" DENSE ROPE ",\"rope_scaling\":{\"factor\":2}}", E_UNSUPPORTED,
	 "rope_scaling"},
	{"{" DENSE "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e4,"
	 "\"rope_type\":\"default\"}}}", E_UNSUPPORTED, "rope_parameters"},
	{"{" DENSE "\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":"
	 "\"default\",\"partial_rotary_factor\":0.5}}", E_UNSUPPORTED,
	 "rope_parameters"},
	{"{" DENSE "\"rope_parameters\":7}", E_FORMAT, "rope_parameters"},
	{"{" DENSE ROPE ",\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":"
	 "\"default\"}}", E_FORMAT, "rope_theta"},
	{"{" DENSE ROPE ",\"hidden_act\":\"gelu\"}", E_UNSUPPORTED, "hidden_act"},
	{"{" DENSE ROPE ",\"hidden_act\":\"sil\"}", E_UNSUPPORTED, "hidden_act"},
	{"{" DENSE ROPE ",\"attention_bias\":true}", E_UNSUPPORTED,
	 "attention_bias"},
	{"{" DENSE ROPE ",\"use_sliding_window\":true}", E_UNSUPPORTED,
	 "use_sliding_window"},
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
	{"{" DENSE ROPE ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", E_UNSUPPORTED,
	 "eos_token_id"},
	{"{" DENSE ROPE ",\"num_key_value_heads\":3}", E_FORMAT,
	 "num_key_value_heads"},
};

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
	arena_init(&arena, 0);
	test_good();
	test_faults();
	test_defaults();
	arena_deinit(&arena);
	return tap_done();
}
