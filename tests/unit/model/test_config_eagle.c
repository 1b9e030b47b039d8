/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of EAGLE-3 heads.
 */
#include "tests/unit/model/config_text.h"

#define HEAD "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLMEagle3\"]," \
	"\"hidden_size\":16,\"num_attention_heads\":2,\"num_key_value_heads\":2," \
	"\"intermediate_size\":32,\"vocab_size\":64,\"max_position_embeddings\":512," \
	"\"rms_norm_eps\":1e-5"
#define ONE HEAD ",\"num_hidden_layers\":1"
#define IDS "\"eagle_aux_hidden_state_layer_ids\":"

static void is_taps(int a, int b, int last, const char *what)
{
	ok(c.eagle.taps[0] == a && c.eagle.taps[1] == b && c.eagle.taps[2] == last, "%s", what);
}

static void test_good(void)
{
	is_int(read_config(ONE "}"), OK, "a head: %s", fail.text);
	ok(c.eagle.is_head && c.eagle.vocab == 64 && c.eagle.dim == 16 && c.eagle.taps[0] == -1,
	   "all tokens, the model's width, the usual layers");
	is_int(read_config(ONE ",\"draft_vocab_size\":32,\"target_hidden_size\":24,"
			   IDS "[2,8,13]}"), OK, "as vLLM has it: %s", fail.text);
	ok(c.eagle.vocab == 32 && c.eagle.dim == 24, "its own vocabulary, and another width");
	is_taps(2, 8, 13, "layers by their inputs");
	is_int(read_config(ONE ",\"draft_vocab_size\":null,\"eagle_config\":{" IDS "[1,7,12],"
			   "\"use_aux_hidden_state\":true}}"), OK, "as SGLang has it: %s",
	       fail.text);
	is_taps(2, 8, 13, "layers by their outputs");
}

static void test_bad(void)
{
	static const struct {
		const char *text;
		enum status st;
		const char *key;
	} rows[] = {
		{HEAD ",\"num_hidden_layers\":2}", E_UNSUPPORTED, "num_hidden_layers"},
		{ONE ",\"norm_before_residual\":true}", E_UNSUPPORTED, "norm_before_residual"},
		{ONE ",\"eagle_config\":{\"use_aux_hidden_state\":false}}", E_UNSUPPORTED,
		 "use_aux_hidden_state"},
		{ONE ",\"draft_vocab_size\":0}", E_FORMAT, "draft_vocab_size"},
		{ONE ",\"draft_vocab_size\":65}", E_FORMAT, "draft_vocab_size"},
		{ONE "," IDS "[1,2]}", E_FORMAT, "eagle_aux_hidden_state_layer_ids"},
		{ONE "," IDS "[1,2,\"3\"]}", E_FORMAT, "eagle_aux_hidden_state_layer_ids"},
		{ONE "," IDS "[-1,2,3]}", E_FORMAT, "eagle_aux_hidden_state_layer_ids"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		is_int(read_config(rows[i].text), rows[i].st, "%s: %s", rows[i].key, fail.text);
		is_str(fail.param, rows[i].key, "the key");
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
