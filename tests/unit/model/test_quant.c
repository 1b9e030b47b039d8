/* SPDX-License-Identifier: Apache-2.0
 *
 * How a packed layer is found among tensors, and what is said where it is not whole.
 */
#include "model/model.h"
#include "model/formats/quant.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

static struct fail fail;

struct part {
	const char *name, *dtype;
	int rows, cols, width; /* bytes of an element; cols 0: a vector of rows */
};

/* Open the layer "x" of (n, k) out of these tensors. */
static enum status open_layer(const struct quant_choice *choice,
			      const struct part *parts, int n_parts, int32_t n,
			      int32_t k, struct weight *out)
{
	struct buf h = {0};
	size_t at = 0;
	for (int i = 0; i < n_parts; i++) {
		const struct part *p = &parts[i];
		if (!p->name)
			continue; /* left out */
		size_t size = (size_t)(p->rows * (p->cols ? p->cols : 1) * p->width);
		buf_addf(&h, "%s\"x.%s\":{\"dtype\":\"%s\",\"shape\":[%d",
			 at ? "," : "{", p->name, p->dtype, p->rows);
		if (p->cols)
			buf_addf(&h, ",%d", p->cols);
		buf_addf(&h, "],\"data_offsets\":[%zu,%zu]}", at, at + size);
		at += size;
	}
	buf_add_c(&h, '}');
	struct buf file = image_make(h.p, at);
	char *dir = image_dir();
	image_write(dir, "model.safetensors", buf_str(&file));
	struct model_opts o = {.use_mmap = false};
	struct quant_want w = {.name = "x", .n = n, .k = k, .choice = *choice};
	struct tensors *ts;
	fail = (struct fail){0};
	if (tensors_open(dir, &o, &ts, &fail) != OK) {
		printf("# %s\n", fail.text);
		abort();
	}
	w.tensors = ts;
	enum status st = quant_open(&w, out, &fail);
	if (st == OK) { /* reads every byte, under a sanitizer */
		float *v = xmalloc(sizeof *v * (size_t)n * (size_t)k);
		weight_decode(out, 0, n, v);
		free(v);
	}
	tensors_close(ts);
	image_remove(dir);
	buf_deinit(&file);
	buf_deinit(&h);
	return st;
}

#define PACKED {"weight_packed", "I32", 12, 4, 4}
#define SCALE {"weight_scale", "F16", 12, 2, 2}
#define ZERO {"weight_zero_point", "I32", 2, 2, 4}

static const struct {
	struct part parts[4];
	int n_parts;
	int32_t n, k;
	enum status want;
	const char *says;
} cases[] = {
	/* 12 rows: the second word of zero points is half full. */
	{{PACKED, SCALE, ZERO}, 3, 12, 32, OK, ""},
	{{PACKED, SCALE}, 2, 12, 32, E_MISSING, "x.weight_zero_point is missing"},
	{{SCALE, ZERO}, 2, 12, 32, E_MISSING, "x.weight_packed is missing"},
	{{PACKED, ZERO}, 2, 12, 32, E_MISSING, "x.weight_scale is missing"},
	{{PACKED, SCALE, {"weight_zero_point", "I32", 1, 2, 4}}, 3, 12, 32, E_FORMAT,
	 "x.weight_zero_point has the shape (1, 2)"},
	{{PACKED, {"weight_scale", "F16", 12, 4, 2}, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_scale has the shape (12, 4)"},
	{{PACKED, {"weight_scale", "F16", 24, 0, 2}, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_scale has the shape (24)"},
	{{PACKED, {"weight_scale", "I16", 12, 2, 2}, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_scale is I16, not BF16"},
	{{{"weight_packed", "I64", 12, 4, 8}, SCALE, ZERO}, 3, 12, 32, E_FORMAT,
	 "x.weight_packed is I64, not I32"},
	{{PACKED, SCALE, ZERO, {"weight_g_idx", "I32", 32, 0, 4}}, 4, 12, 32,
	 E_FORMAT, "x.weight_g_idx"},
	{{PACKED, SCALE, ZERO, {"weight_shape", "I64", 2, 0, 8}}, 4, 12, 32, E_FORMAT,
	 "x.weight_shape says"},
	{{PACKED, SCALE, ZERO, {"weight_shape", "I64", 3, 0, 8}}, 4, 12, 32, E_FORMAT,
	 "x.weight_shape is not two I64"},
	{{PACKED, SCALE, ZERO}, 3, 12, 36, E_UNSUPPORTED, "36 inputs in groups of 16"},
	{{PACKED, SCALE, ZERO}, 3, 12, 40, E_UNSUPPORTED, "40 inputs in groups of 16"},
	{{PACKED, SCALE, ZERO}, 3, 13, 32, E_FORMAT, "needs (13, 4)"},
};

static const struct quant_choice int4 = {
	.is_packed = true, .quant = QUANT_INT4, .is_asymmetric = true, .group = 16};

static void check(const struct quant_choice *choice, const struct part *parts,
		  int n_parts, int32_t n, int32_t k, enum status want, const char *says)
{
	struct weight w;
	enum status st = open_layer(choice, parts, n_parts, n, k, &w);
	if (!ok(st == want && strstr(fail.text, says), "%s: %s %s",
		quant_name(choice->quant), status_name(want), says))
		printf("# %s: %s\n", status_name(st), fail.text);
}

/* Each format whole, for 16 outputs and 32 inputs. The first numbers of a file are
 * 0x03020100, a global scale that is above 0. */
#define GLOBAL(name) {name, "F32", 1, 0, 4}
static const struct {
	struct quant_choice choice;
	struct part parts[3];
} whole[] = {
	{{.is_packed = true, .quant = QUANT_INT4, .is_asymmetric = true, .group = 16},
	 {{"weight_packed", "I32", 16, 4, 4}, {"weight_scale", "BF16", 16, 2, 2},
	  {"weight_zero_point", "I32", 2, 2, 4}}},
	{{.is_packed = true, .quant = QUANT_INT8, .is_asymmetric = true, .group = 16},
	 {{"weight_packed", "I32", 16, 8, 4}, {"weight_scale", "BF16", 16, 2, 2},
	  {"weight_zero_point", "I32", 4, 2, 4}}},
	{{.is_packed = true, .quant = QUANT_AWQ4, .group = 16},
	 {{"qweight", "I32", 32, 2, 4}, {"qzeros", "I32", 2, 2, 4},
	  {"scales", "F16", 2, 16, 2}}},
	{{.is_packed = true, .quant = QUANT_GPTQ4, .group = 16, .zero_step = 1},
	 {{"qweight", "I32", 4, 16, 4}, {"qzeros", "I32", 2, 2, 4},
	  {"scales", "F16", 2, 16, 2}}},
	{{.is_packed = true, .quant = QUANT_GPTQ8, .group = 16, .zero_step = 1},
	 {{"qweight", "I32", 8, 16, 4}, {"qzeros", "I32", 2, 4, 4},
	  {"scales", "F16", 2, 16, 2}}},
	{{.is_packed = true, .quant = QUANT_NVFP4},
	 {GLOBAL("weight_global_scale"), {"weight_packed", "U8", 16, 16, 1},
	  {"weight_scale", "F8_E4M3", 16, 2, 1}}},
	{{.is_packed = true, .quant = QUANT_NVFP4},
	 {GLOBAL("weight_scale_2"), {"weight", "U8", 16, 16, 1},
	  {"weight_scale", "F8_E4M3", 16, 2, 1}}},
	{{.is_packed = true, .quant = QUANT_MXFP4, .group = 32},
	 {{"weight", "U8", 16, 16, 1}, {"weight_scale", "U8", 16, 1, 1}}},
	{{.is_packed = true, .quant = QUANT_FP8, .group = 20, .group_n = 12},
	 {{"weight_scale_inv", "F32", 2, 2, 4}, {"weight", "F8_E4M3", 16, 32, 1}}},
	{{.is_packed = true, .quant = QUANT_FP8},
	 {{"weight_scale", "F32", 16, 1, 4}, {"weight", "F8_E4M3", 16, 32, 1}}},
};

/* Without a tensor, with one of another type, with one of another shape: the error
 * names it. */
static void test_each(size_t i)
{
	int n = whole[i].parts[2].name ? 3 : 2;
	check(&whole[i].choice, whole[i].parts, n, 16, 32, OK, "");
	for (int p = 0; p < n; p++) {
		struct part parts[3];
		char name[40], says[80];
		memcpy(parts, whole[i].parts, sizeof parts);
		snprintf(name, sizeof name, "x.%s", parts[p].name);
		parts[p].name = NULL;
		/* Block scales have another spelling, which is looked for last. */
		snprintf(says, sizeof says, "%s is missing",
			 strcmp(name, "x.weight_scale_inv") ? name : "x.weight_scale");
		check(&whole[i].choice, parts, n, 16, 32, E_MISSING, says);
		parts[p] = whole[i].parts[p];
		parts[p].dtype = "I64";
		parts[p].width = 8;
		snprintf(says, sizeof says, "%s is I64", name);
		check(&whole[i].choice, parts, n, 16, 32, E_FORMAT, says);
		parts[p] = whole[i].parts[p];
		parts[p].rows++;
		check(&whole[i].choice, parts, n, 16, 32, E_FORMAT, name);
	}
}

static void test_special(void)
{
	const struct part bad_groups[] = {
		{"qweight", "I32", 4, 16, 4}, {"qzeros", "I32", 2, 2, 4},
		{"scales", "F16", 2, 16, 2}, {"g_idx", "I32", 32, 0, 4}};
	const struct part few_groups[] = {
		{"qweight", "I32", 4, 16, 4}, {"qzeros", "I32", 2, 2, 4},
		{"scales", "F16", 2, 16, 2}, {"g_idx", "I32", 31, 0, 4}};
	const struct quant_choice gptq = {.is_packed = true, .quant = QUANT_GPTQ4,
					  .group = 16, .zero_step = 1};
	check(&gptq, bad_groups, 4, 16, 32, E_FORMAT, "x.g_idx has group");
	check(&gptq, few_groups, 4, 16, 32, E_FORMAT, "x.g_idx is not a vector of 32");
	check(&gptq, bad_groups, 3, 12, 32, E_UNSUPPORTED, "x: 12 outputs");
	const struct quant_choice awq = {.is_packed = true, .quant = QUANT_AWQ4, .group = 20};
	check(&awq, bad_groups, 3, 16, 32, E_UNSUPPORTED, "x: 16 outputs");
	/* At byte 128 of the pattern: 0x83828180, below 0. */
	const struct part negative[] = {{"pad", "U8", 128, 0, 1},
					GLOBAL("weight_scale_2"),
					{"weight", "U8", 16, 16, 1},
					{"weight_scale", "F8_E4M3", 16, 2, 1}};
	const struct quant_choice nvfp4 = {.is_packed = true, .quant = QUANT_NVFP4};
	check(&nvfp4, negative, 4, 16, 32, E_FORMAT, "x.weight_scale_2 is -");
	check(&nvfp4, negative, 4, 16, 24, E_UNSUPPORTED, "x: 24 inputs");
	const struct part inputs[] = {{"weight_scale", "F32", 1, 16, 4},
				      {"weight", "F8_E4M3", 16, 32, 1}};
	const struct quant_choice fp8 = {.is_packed = true, .quant = QUANT_FP8};
	check(&fp8, inputs, 2, 16, 32, E_FORMAT, "x.weight_scale has 16 numbers");
	const struct quant_choice mxfp4 = {.is_packed = true, .quant = QUANT_MXFP4, .group = 32};
	const struct part few_scales[] = {{"weight_packed", "U8", 16, 16, 1},
					  {"weight_scale", "F8_E8M0", 15, 1, 1}};
	check(&mxfp4, few_scales, 2, 16, 32, E_FORMAT, "x.weight_scale has the shape (15, 1)");
	check(&mxfp4, few_scales, 2, 16, 48, E_UNSUPPORTED, "x: 48 inputs");
	/* The last three parts: more factors than inputs, too few, and of another type. */
	const struct quant_choice pairs = {.is_packed = true, .quant = QUANT_INT4,
					   .stored = STORED_PAIRS};
	const char *says = "x.pre_quant_scale is not a factor for each of 32 inputs";
	for (int i = 0; i < 3; i++) {
		const struct part bad[] = {
			{"weight_packed", "I32", 12, 4, 4}, {"weight_scale", "F32", 12, 2, 4},
			{"pre_quant_scale", i == 2 ? "BF16" : "F32", i == 0 ? 33 : i == 1 ? 31 : 32,
			 0, i == 2 ? 2 : 4}};
		check(&pairs, bad, 2, 12, 32, OK, "");
		check(&pairs, bad, 3, 12, 32, E_FORMAT, says);
	}
	const struct part plain = {"weight", "F16", 16, 32, 2};
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		struct quant_choice c = {.is_packed = true, .quant = q};
		check(&c, &plain, 1, 16, 32, OK, ""); /* plain, whatever is said */
	}
}

int main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(&int4, cases[i].parts, cases[i].n_parts, cases[i].n, cases[i].k,
		      cases[i].want, cases[i].says);
	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		test_each(i);
	test_special();
	return tap_done();
}
