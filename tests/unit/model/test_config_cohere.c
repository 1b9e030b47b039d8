/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of Command R, which have names of their own.
 */
#include "tests/unit/model/config_text.h"

#define SIZES "\"num_hidden_layers\":2,\"hidden_size\":16,\"num_attention_heads\":2," \
	"\"num_key_value_heads\":2,\"intermediate_size\":32,\"vocab_size\":64," \
	"\"max_position_embeddings\":512"
#define ONE "{\"model_type\":\"cohere\"," SIZES
#define TWO "{\"model_type\":\"cohere2\"," SIZES

static void test_good(void)
{
	is_int(read_config(ONE "}"), OK, "cohere: %s", fail.text);
	is_near(c.norm_eps, 1e-5, 1e-10, "eps");
	is_near(c.logit_scale, 0.0625, 0, "the logits' factor");
	ok(c.tied_embeddings && !c.is_unrotated && c.max_ctx == 512, "all layers rotate");
	is_int(read_config(ONE ",\"use_qk_norm\":false,\"logit_scale\":0.8333,"
			   "\"model_max_length\":131072,\"layer_norm_eps\":1e-6}"), OK,
	       "Command R: %s", fail.text);
	ok(c.max_ctx == 131072, "the longer context");
	is_near(c.norm_eps, 1e-6, 1e-12, "its eps");
	is_near(c.logit_scale, 0.8333, 1e-6, "its factor");
	is_int(read_config(TWO ",\"sliding_window_pattern\":2}"), OK, "cohere2: %s", fail.text);
	ok(c.window == 4096 && c.is_windowed[0] && !c.is_windowed[1], "windows");
	ok(!c.is_unrotated[0] && c.is_unrotated[1], "layers that see all do not rotate");
}

static void test_bad(void)
{
	static const struct {
		const char *text;
		enum status st;
		const char *key;
	} rows[] = {
		{TWO ",\"use_parallel_block\":false}", E_UNSUPPORTED, "use_parallel_block"},
		{TWO ",\"logit_scale\":0}", E_FORMAT, "logit_scale"},
		{TWO ",\"layer_norm_eps\":1}", E_FORMAT, "rms_norm_eps"},
		{ONE ",\"layer_norm_eps\":1e-5,\"rms_norm_eps\":1e-6}", E_FORMAT,
		 "layer_norm_eps"},
		{ONE ",\"model_max_length\":0}", E_FORMAT, "max_position_embeddings"},
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
