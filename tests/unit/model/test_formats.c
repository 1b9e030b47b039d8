/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer of each format, against the numbers that numpy found in it
 * (tests/golden/make_formats.py).
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/model.h"
#include "model/formats/quant.h"
#include "tests/tap.h"

#define AS(kind, ...) {.is_packed = true, .quant = QUANT_##kind, __VA_ARGS__}
static const struct {
	const char *name;
	int32_t n, k;
	struct quant_choice choice;
} cases[] = {
	{"int4", 20, 48, AS(INT4, .group = 16)},
	{"int4_asym", 20, 48, AS(INT4, .is_asymmetric = true, .group = 16)},
	{"int8", 18, 48, AS(INT8, .group = 16)},
	{"int8_asym", 18, 48, AS(INT8, .is_asymmetric = true, .group = 24)},
	{"int8_row", 5, 40, AS(INT8, .group = 0)},
	{"int4_order", 10, 48, AS(INT4, .is_asymmetric = true, .group = 16)},
	{"int8_order", 10, 48, AS(INT8, .is_asymmetric = true, .group = 8)},
	{"awq", 24, 40, AS(AWQ4, .group = 8)},
	{"awq_row", 8, 16, AS(AWQ4, .group = 0)},
	{"gptq", 16, 48, AS(GPTQ4, .group = 16, .zero_step = 1)},
	{"gptq_act", 16, 48, AS(GPTQ4, .group = 16, .zero_step = 1)},
	{"gptq_v2", 24, 32, AS(GPTQ4, .group = 8)},
	{"gptq8", 12, 48, AS(GPTQ8, .group = 24, .zero_step = 1)},
	{"nvfp4_ct", 10, 48, AS(NVFP4, .group = 0)},
	{"nvfp4_modelopt", 10, 48, AS(NVFP4, .group = 0)},
	{"fp8_block", 24, 40, AS(FP8, .group = 32, .group_n = 16)},
	{"fp8_tensor", 9, 24, AS(FP8, .group = 0)},
	{"fp8_one", 9, 24, AS(FP8, .group = 0)},
	{"fp8_channel", 9, 24, AS(FP8, .group = 0)},
	{"fp8_vector", 9, 24, AS(FP8, .group = 0)},
	{"fp8_e8m0", 24, 40, AS(FP8, .group = 32, .group_n = 16)},
	{"fp8_bytes", 24, 40, AS(FP8, .group = 32, .group_n = 16)},
	{"fp4", 6, 96, AS(FP8, .group = 128, .group_n = 128)},
	{"fp4_inv", 6, 96, AS(FP8, .group = 128, .group_n = 128)},
	{"mxfp4_ct", 6, 96, AS(MXFP4, .group = 32)},
	{"mxfp4_modelopt", 6, 96, AS(MXFP4, .group = 0)},
	/* Whatever the scheme says, plain numbers are plain. */
	{"plain_int4", 20, 48, AS(INT4, .group = 16)},
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
	struct quant_want want = {ts, name, n, k, cases[i].choice, NULL, NULL};
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

/* --- experts that share a tensor ------------------------------------------ */

enum { E = 3, F = 8, D = 64 };

static const struct {
	const char *name, *arch, *scheme;
	bool has_down;
} shared[] = {
	{"turn", "gpt_oss", "{\"quant_method\":\"mxfp4\"}", false},
	{"wide", "gpt_oss", "{\"quant_method\":\"mxfp4\"}", true},
	{"half", "qwen3_5_moe", NULL, true},
	{"pack", "qwen3_5_moe", "{\"quant_method\":\"compressed-tensors\",\"format\":"
	 "\"pack-quantized\",\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],"
	 "\"weights\":{\"num_bits\":4,\"type\":\"int\",\"symmetric\":false,"
	 "\"strategy\":\"group\",\"group_size\":32}}}}", false},
};

static void check_shared(const struct model *m, const char *name, const char *proj,
			 int32_t n, int32_t k)
{
	float *got = xcalloc((size_t)n * (size_t)k, sizeof *got);
	char full[64];
	snprintf(full, sizeof full, "%s.expected.%s", name, proj);
	const struct tensor *t = tensors_find(m->tensors, full);
	for (int e = 0; e < E; e++) {
		struct weight w;
		struct fail fail = {0};
		snprintf(full, sizeof full, "%s.experts.%d.%s", name, e, proj);
		if (!ok(t && model_has(m, full) &&
			model_weight(m, full, n, k, &w, &fail) == OK,
			"%s opens: %s", full, fail.text))
			continue;
		const float *right = (const float *)t->data + e * n * k;
		int wrong = 0;
		weight_decode(&w, 0, n, got);
		for (int32_t j = 0; j < n * k; j++)
			wrong += !same(got[j], right[j]);
		is_int(wrong, 0, "%s is right", full);
	}
	free(got);
}

static void test_shared(struct tensors *ts)
{
	struct fail fail = {0};
	for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
		struct model m = {.tensors = ts, .config = {.n_experts = E}};
		json_t *scheme = shared[i].scheme ? json_loads(shared[i].scheme, 0, NULL)
						  : NULL;
		snprintf(m.config.arch, sizeof m.config.arch, "%s", shared[i].arch);
		is_int(quant_scheme_parse(scheme, &m.scheme, &fail), OK, "a scheme");
		check_shared(&m, shared[i].name, "gate_proj", F, D);
		check_shared(&m, shared[i].name, "up_proj", F, D);
		if (shared[i].has_down)
			check_shared(&m, shared[i].name, "down_proj", D, F);
		char name[64];
		snprintf(name, sizeof name, "%s.experts.3.gate_proj", shared[i].name);
		ok(!model_has(&m, name), "there is no fourth");
		snprintf(name, sizeof name, "%s.experts.1.gate_proj", shared[i].name);
		struct weight w;
		ok(model_weight(&m, name, F + 8, D, &w, &fail) == E_FORMAT &&
		   strstr(fail.text, "gate_up_proj"), "wrong rows: %s", fail.text);
		m.config.n_experts = E + 1;
		ok(model_weight(&m, name, F, D, &w, &fail) == E_FORMAT &&
		   strstr(fail.text, "experts"), "wrong experts: %s", fail.text);
		quant_scheme_destroy(m.scheme);
		json_decref(scheme);
	}
}

/* --- layers that loading makes into other formats -------------------------------- */

#define QUARK(type, group, method) "{\"quant_method\":\"quark\",\"global_quant_config\":{" \
	"\"weight\":{\"dtype\":\"" type "\",\"qscheme\":\"per_group\",\"ch_axis\":1," \
	"\"scale_format\":\"e8m0\",\"group_size\":" group "}},\"export\":{\"pack_method\":\"" \
	method "\"}}"
#define CT(format, bits, type, more) "{\"quant_method\":\"compressed-tensors\",\"format\":\"" \
	format "\",\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":" \
	bits ",\"type\":\"" type "\"," more "}}}}"
#define ROW "\"strategy\":\"channel\""
#define GROUP(size) "\"strategy\":\"group\",\"group_size\":" size
#define ASYM ",\"symmetric\":false"
#define GPTQ(bits, group, format) "{\"quant_method\":\"gptq\",\"bits\":" bits \
	",\"group_size\":" group ",\"checkpoint_format\":\"" format "\"}"
#define MODELOPT(algo) "{\"quant_method\":\"modelopt\",\"quant_algo\":\"" algo "\""
static const char llmint8[] = "{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}";
static const char bytes[] = CT("int-quantized", "8", "int", ROW);
static const char mxfp8[] = CT("mxfp8-quantized", "8", "float", GROUP("32"));
static const struct {
	const char *name;
	int32_t n, k;
	enum quant quant; /* what it becomes */
	float most; /* largest error of that, of the layer's largest weight */
	const char *scheme; /* NULL: the layer says all itself */
} made[] = {
	{"nf4", 8, 96, QUANT_NF4, 0x1p-11f, NULL},
	{"nf4_nested", 12, 64, QUANT_NF4, 0x1p-11f, NULL},
	{"nf4_odd", 8, 40, QUANT_BF16, 0x1p-8f, NULL},
	{"nf4_stored", 8, 96, QUANT_NF4, 0x1p-11f, NULL},
	{"fp4", 8, 64, QUANT_BF16, 0x1p-8f, NULL},
	{"hqq", 8, 128, QUANT_Q4_1, 0x1p-10f, NULL},
	{"hqq_odd", 8, 48, QUANT_BF16, 0x1p-8f, NULL},
	{"hqq8", 6, 64, QUANT_BF16, 0x1p-8f, NULL},
	{"hqq_1", 8, 64, QUANT_Q4_1, 0x1p-10f, NULL},
	{"hqq_2", 8, 64, QUANT_Q4_1, 0x1p-10f, NULL},
	{"hqq_3", 8, 64, QUANT_Q4_1, 0x1p-10f, NULL},
	{"hqq_columns", 8, 48, QUANT_BF16, 0x1p-8f, NULL},
	{"llmint8", 10, 24, QUANT_INT8, 0, llmint8},
	{"ct_bytes", 10, 24, QUANT_INT8, 0, bytes},
	{"ct_byte", 10, 24, QUANT_INT8, 0, bytes},
	{"ct_bytes_asym", 10, 24, QUANT_INT8, 0, CT("int-quantized", "8", "int", ROW ASYM)},
	{"ct_bytes_group", 10, 48, QUANT_INT8, 0,
	 CT("int-quantized", "8", "int", GROUP("16") ASYM)},
	{"ct_bytes_4", 10, 48, QUANT_INT4, 0, CT("int-quantized", "4", "int", GROUP("16"))},
	{"ct_bytes_block", 10, 48, QUANT_INT8, 0,
	 CT("naive-quantized", "8", "int", "\"strategy\":\"block\",\"block_structure\":[8,16]")},
	{"ct_2", 10, 48, QUANT_INT4, 0, CT("pack-quantized", "2", "int", GROUP("16"))},
	{"ct_3", 10, 48, QUANT_INT4, 0, CT("pack-quantized", "3", "int", GROUP("16") ASYM)},
	{"ct_5", 10, 40, QUANT_INT8, 0, CT("pack-quantized", "5", "int", ROW)},
	{"ct_6", 10, 48, QUANT_INT8, 0, CT("pack-quantized", "6", "int", GROUP("16") ASYM)},
	{"ct_7", 10, 48, QUANT_INT8, 0, CT("pack-quantized", "7", "int", GROUP("16"))},
	{"mxfp8", 6, 96, QUANT_FP8, 0, mxfp8},
	{"mxfp8_powers", 6, 96, QUANT_FP8, 0, mxfp8},
	{"mxfp6", 6, 96, QUANT_FP8, 0, CT("mxfp6-pack-quantized", "6", "float", GROUP("32"))},
	{"mxfp6_quark", 6, 96, QUANT_FP8, 0, QUARK("fp6_e3m2", "32", "reorder")},
	{"fp8_group", 9, 48, QUANT_FP8, 0, CT("float-quantized", "8", "float", GROUP("16"))},
	{"fp8_modelopt", 9, 160, QUANT_FP8, 0,
	 MODELOPT("FP8_PB_WO") "}"},
	{"gptq_2", 16, 48, QUANT_GPTQ4, 0, GPTQ("2", "16", "gptq")},
	{"gptq_3", 32, 96, QUANT_GPTQ4, 0, GPTQ("3", "32", "gptq_v2")},
	{"gptq_6", 16, 96, QUANT_GPTQ8, 0, GPTQ("6", "32", "gptq")},
	{"quark_int4", 16, 48, QUANT_AWQ4, 0, QUARK("int4", "16", "reorder")},
	{"quark_uint4", 16, 48, QUANT_AWQ4, 0, QUARK("uint4", "16", "reorder")},
	{"quark_order", 8, 32, QUANT_AWQ4, 0, QUARK("int4", "16", "order")},
	{"modelopt_int4", 10, 48, QUANT_INT4, 0, MODELOPT("W4A16_AWQ") ",\"group_size\":16}"},
	{"modelopt_folded", 10, 64, QUANT_INT4, 0, MODELOPT("W4A8_AWQ") "}"},
};

static void check_made(const struct tensors *ts, const struct quant_scheme *scheme,
		       size_t i_made)
{
	const char *name = made[i_made].name;
	int32_t n = made[i_made].n, k = made[i_made].k, last = (n - 1) * k;
	struct quant_want want = {ts, name, n, k, {0}, NULL, NULL};
	struct weight w;
	struct fail fail = {0};
	char full[64];
	is_int(quant_scheme_find(scheme, name, &want.choice, &fail), OK, "%s: a choice", name);
	snprintf(full, sizeof full, "%s.expected", name);
	const struct tensor *t = tensors_find(ts, full);
	if (!ok(t && quant_open(&want, &w, &fail) == OK, "%s opens: %s", name, fail.text))
		return;
	is_int(w.quant, made[i_made].quant, "%s: what it becomes", name);
	const float *right = t->data;
	float *got = xcalloc((size_t)n * (size_t)k, sizeof *got), part[64];
	float largest = 0, error = 0;
	int wrong = 0;
	weight_decode(&w, 0, n, got);
	for (int32_t j = 0; j < n * k; j++) {
		wrong += !same(got[j], right[j]);
		largest = fmaxf(largest, fabsf(right[j]));
	}
	is_int(wrong, 0, "%s: its %d numbers, exact", name, n * k);
	weight_decode_part(&w, n - 1, 8, 23, part);
	is_int(memcmp(part, got + last + 8, 15 * sizeof *part), 0, "%s: in parts", name);
	w.source = NULL;
	weight_decode(&w, 0, n, got);
	for (int32_t j = 0; j < n * k; j++)
		error = fmaxf(error, fabsf(got[j] - right[j]));
	ok(error <= fmaxf(made[i_made].most, 1.2e-7f) * largest, "%s: rounded by %g of %g",
	   name, error, largest);
	free(got);
}

/* A scheme fits few of the layers, so each scheme sees its own ones. */
static void keep(struct tensors *ts, size_t i_made)
{
	for (size_t i = 0; i < tensors_count(ts); i++) {
		struct tensor t = *tensors_at(ts, i);
		size_t n = strlen(made[i_made].name);
		t.is_made = strncmp(t.name, made[i_made].name, n) != 0 || t.name[n] != '.';
		tensors_replace(ts, i, &t);
	}
}

static void test_made(size_t i_made)
{
	const char *text = made[i_made].scheme;
	struct model_opts o = {.use_mmap = true};
	struct tensors *ts;
	struct quant_scheme *scheme = NULL;
	struct fail fail = {0};
	enum status st = tensors_open(tap_src("tests/golden/formats/made"), &o, &ts, &fail);
	if (!ok(st == OK, "formats/made opens: %s", fail.text))
		return;
	json_t *config = text ? json_loads(text, 0, NULL) : NULL;
	is_int(quant_scheme_parse(config, &scheme, &fail), OK, "scheme: %s", fail.text);
	ok(!text || quant_scheme_is_made(scheme), "its layers are made");
	keep(ts, i_made);
	is_int(quant_made_all(ts, scheme, &fail), OK, "%s can be made: %s",
	       made[i_made].name, fail.text);
	check_made(ts, scheme, i_made);
	quant_scheme_destroy(scheme);
	json_decref(config);
	tensors_close(ts);
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
	quant_fp8_exponents(ts);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(ts, i);
	test_shared(ts);
	tensors_close(ts);
	for (size_t i = 0; i < ARRAY_LEN(made); i++)
		test_made(i);
	return tap_done();
}
