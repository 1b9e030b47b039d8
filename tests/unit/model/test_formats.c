/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer of each format, against the numbers that numpy found in it
 * (tests/golden/make_formats.py).
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/model.h"
#include "model/quant.h"
#include "tests/tap.h"

static const struct {
	const char *name;
	int32_t n, k;
	struct quant_choice choice;
} cases[] = {
	{"int4", 20, 48, {true, QUANT_INT4, false, 16, 0, 0}},
	{"int4_asym", 20, 48, {true, QUANT_INT4, true, 16, 0, 0}},
	{"int8", 18, 48, {true, QUANT_INT8, false, 16, 0, 0}},
	{"int8_asym", 18, 48, {true, QUANT_INT8, true, 24, 0, 0}},
	{"int8_row", 5, 40, {true, QUANT_INT8, false, 0, 0, 0}},
	{"awq", 24, 40, {true, QUANT_AWQ4, false, 8, 0, 0}},
	{"awq_row", 8, 16, {true, QUANT_AWQ4, false, 0, 0, 0}},
	{"gptq", 16, 48, {true, QUANT_GPTQ4, false, 16, 0, 1}},
	{"gptq_act", 16, 48, {true, QUANT_GPTQ4, false, 16, 0, 1}},
	{"gptq_v2", 24, 32, {true, QUANT_GPTQ4, false, 8, 0, 0}},
	{"gptq8", 12, 48, {true, QUANT_GPTQ8, false, 24, 0, 1}},
	{"nvfp4_ct", 10, 48, {true, QUANT_NVFP4, false, 0, 0, 0}},
	{"nvfp4_modelopt", 10, 48, {true, QUANT_NVFP4, false, 0, 0, 0}},
	{"fp8_block", 24, 40, {true, QUANT_FP8, false, 32, 16, 0}},
	{"fp8_tensor", 9, 24, {true, QUANT_FP8, false, 0, 0, 0}},
	{"fp8_one", 9, 24, {true, QUANT_FP8, false, 0, 0, 0}},
	{"fp8_channel", 9, 24, {true, QUANT_FP8, false, 0, 0, 0}},
	{"fp8_vector", 9, 24, {true, QUANT_FP8, false, 0, 0, 0}},
	/* Whatever the scheme says, plain numbers are plain. */
	{"plain_int4", 20, 48, {true, QUANT_INT4, false, 16, 0, 0}},
};

static bool same(float got, float want)
{
	/* NVFP4: numpy rounds the division, the table a product in double. */
	return fabsf(got - want) <= 1.2e-7f * fabsf(want);
}

/* Bytes of all tensors of the layer that a decoder reads. */
static size_t bytes_of(const struct tensors *ts, const char *name)
{
	static const char *const beside[] = {"expected", "weight_shape",
					     "weight_global_scale", "weight_scale_2"};
	size_t total = 0, n = strlen(name);
	for (size_t i = 0; i < tensors_count(ts); i++) {
		const struct tensor *t = tensors_at(ts, i);
		bool counts = strncmp(t->name, name, n) == 0 && t->name[n] == '.';
		for (size_t k = 0; counts && k < ARRAY_LEN(beside); k++)
			counts = strcmp(t->name + n + 1, beside[k]) != 0;
		total += counts ? t->n_bytes : 0;
	}
	/* In order, groups are not read. */
	return strcmp(name, "gptq") == 0 ? total - 48 * sizeof(int32_t) : total;
}

static void check(const struct tensors *ts, size_t i)
{
	const char *name = cases[i].name;
	int32_t n = cases[i].n, k = cases[i].k;
	struct quant_want want = {ts, name, n, k, cases[i].choice};
	struct weight w;
	struct fail fail = {0};
	char full[64];
	snprintf(full, sizeof full, "%s.expected", name);
	const struct tensor *t = tensors_find(ts, full);
	if (!ok(t && quant_open(&want, &w, &fail) == OK, "%s opens: %s", name,
		fail.text))
		return;
	float *got = xcalloc((size_t)n * (size_t)k, sizeof *got), part[64];
	const float *right = t->data;
	int wrong = 0, parts = 0;
	weight_decode(&w, 0, n, got);
	for (int32_t j = 0; j < n * k; j++)
		wrong += !same(got[j], right[j]);
	is_int(wrong, 0, "%s: its %d numbers", name, n * k);
	for (int32_t k0 = 0; k0 < k; k0 += 8) {
		int32_t k1 = MIN(k, k0 + 23);
		weight_decode_part(&w, n - 1, k0, k1, part);
		parts += memcmp(part, got + (n - 1) * k + k0,
				sizeof *part * (size_t)(k1 - k0)) != 0;
	}
	is_int(parts, 0, "%s: in parts", name);
	if (w.quant != QUANT_F32)
		is_int(weight_bytes(&w), (long long)bytes_of(ts, name), "%s: bytes",
		       name);
	free(got);
}

static void test_e4m3(void)
{
	is_near(blocks_e4m3(0x7E), 448, 0, "the largest e4m3");
	is_near(blocks_e4m3(0x01), 0x1p-9, 0, "the smallest");
	is_near(blocks_e4m3(0x88), -0x1p-6, 0, "the smallest normal, negative");
	ok(isnan(blocks_e4m3(0xFF)) && isnan(blocks_e4m3(0x7F)), "NaN");
}

int main(void)
{
	struct model_opts o = {.use_mmap = true};
	struct tensors *ts;
	struct fail fail = {0};
	if (tensors_open(tap_src("tests/golden/formats"), &o, &ts, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		return 1;
	}
	test_e4m3();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(ts, i);
	tensors_close(ts);
	return tap_done();
}
