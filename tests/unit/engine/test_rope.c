/* SPDX-License-Identifier: Apache-2.0
 *
 * Frequencies of every kind of rope, against tests/golden/make_dense_models.py.
 */
#include "engine/rope.h"

#include <math.h>

#include "model/model_config.h"
#include "tests/tap.h"

static void check(struct arena *arena, const json_t *one)
{
	const json_t *config = json_object_get(one, "config");
	const json_t *want = json_object_get(one, "freq");
	struct model_config c;
	struct fail fail = {0};
	char *text = json_dumps(json_object_get(config, "rope_scaling"),
				JSON_COMPACT | JSON_ENCODE_ANY);
	if (!ok(model_config_read(config, arena, &c, &fail) == OK, "%s: %s", text,
		fail.text))
		abort();
	double freq[512], worst = 0;
	int n = c.head_dim / 2;
	double factor = rope_frequencies(&c.ropes[0], c.max_ctx, n, freq);
	is_int(n, (long long)json_array_size(want), "pairs");
	for (int i = 0; i < n; i++)
		worst = worse_of(worst, fabs(freq[i] / json_number_value(json_array_get(
							   want, (size_t)i)) - 1));
	ok(worst < 1e-12, "frequencies, within %.1e", worst);
	is_near(factor, json_number_value(json_object_get(one, "factor")), 1e-12,
		"factor");
	free(text);
}

/* GGUF writes llama3's frequencies as a factor a pair. */
static void test_factors(void)
{
	static const float factors[3] = {1, 2.5f, 8};
	struct rope r = {.kind = ROPE_FACTORS, .theta = 1e6, .factors = factors};
	double freq[3];
	is_near(rope_frequencies(&r, 0, 3, freq), 1, 0, "factors: nothing sharper");
	is_near(freq[0], 1, 1e-15, "the first pair");
	is_near(freq[1], 0.01 / 2.5, 1e-15, "the second");
	is_near(freq[2], 1e-4 / 8, 1e-15, "the last");
}

static void test_attn_temp(void)
{
	struct model_config c = {.ropes = {{.kind = ROPE_YARN, .original_ctx = 100,
					    .attn_temp_beta = 0.1}}};
	ok(rope_has_attn_temp(&c), "a model with late queries");
	is_near(rope_attn_temp(&c, 99), 1, 0, "queries are as they are");
	is_near(rope_attn_temp(&c, 100), 1 + 0.1 * log(2), 1e-7, "then longer");
	is_near(rope_attn_temp(&c, 299), 1 + 0.1 * log(3), 1e-7, "by whole contexts");
	struct model_config l = {.llama4 = {.attn_temp_every = 100, .attn_temp_scale = 0.5f}};
	ok(rope_has_attn_temp(&l), "Llama 4 has them too");
	is_near(rope_attn_temp(&l, 98), 1, 0, "it counts positions from 1");
	is_near(rope_attn_temp(&l, 99), 1 + 0.5 * log(2), 1e-7, "so the hundredth is late");
}

int main(void)
{
	struct arena arena;
	arena_init(&arena);
	json_t *root = json_load_file(tap_src("tests/golden/rope.json"), 0, NULL);
	size_t i;
	json_t *one;
	ok(json_array_size(root) > 0, "tests/golden/rope.json");
	json_array_foreach(root, i, one)
		check(&arena, one);
	json_decref(root);
	test_factors();
	test_attn_temp();
	arena_deinit(&arena);
	return tap_done();
}
