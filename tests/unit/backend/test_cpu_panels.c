/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes panels, how large they are, and numbers that are none; and that the memory
 * that happens to be free decides none of it.
 */
#include "backend/cpu/cpu_panels.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "tests/tap.h"

/* Panels hold what these formats decode to, as codes of 4 bits, or of 3 for TQ. */
static bool has_wider_codes(enum quant q)
{
	return q == QUANT_Q1_0 || q == QUANT_Q2_0 || q == QUANT_TQ1_0 ||
	       q == QUANT_TQ2_0 || q == QUANT_IQ1_S ||
	       q == QUANT_IQ1_M || q == QUANT_IQ2_XS || q == QUANT_IQ2_S ||
	       q == QUANT_IQ3_XXS || q == QUANT_IQ3_S;
}

/* Bits a weight of a format in blocks, scales included. */
static double bits_of(enum quant q)
{
	struct weight w = {.quant = q, .n = 16, .k = 256};
	return (double)weight_bytes(&w) * 8 / (16 * 256);
}

static void test_growth(void)
{
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		double growth = cpu_panels_growth(q);
		if (q == QUANT_BF16)
			is_near(growth, 1, 0, "bf16 is copied");
		else if (quant_bits(q) > 8)
			is_near(growth, 0, 0, "%s is read where it lies", quant_name(q));
		else if (has_wider_codes(q))
			ok(growth >= 1 && growth * bits_of(q) < 4.6,
			   "%s takes %.2f bits a weight, not %.2f", quant_name(q),
			   growth * bits_of(q), bits_of(q));
		else
			ok(growth >= 1 && growth < 1.05, "%s takes %.3f of its size",
			   quant_name(q), growth);
	}
}

/* A row each: is y of `isa` NaN where y by the definition is? */
static void check_nan(const struct weight *w, const char *isa, const char *what)
{
	struct backend_opts o = {"cpu", .n_threads = 1, .cpu_isa = isa};
	struct backend *b;
	struct fail fail = {0};
	enum status st = backend_create(&o, &b, &fail);
	if (st == E_UNSUPPORTED) {
		printf("# %s: %s\n", isa, fail.text);
		return;
	}
	is_int(st, OK, "%s", isa);
	float x[256], row[256], y[16] = {0};
	for (int i = 0; i < w->k; i++)
		x[i] = (float)(i % 7 - 3);
	struct weight loaded;
	is_int(b->ops->load_weight(b, w, &loaded, &fail), OK, "%s: loads", what);
	struct linear_args a = {.n_tok = 1, .x = x, .n_out = 1,
				.out = {{.w = &loaded, .y = y, .is_f32 = true}}};
	is_int(b->ops->linear(b, &a), OK, "%s: multiplies", what);
	int wrong = 0, n_nan = 0;
	for (int32_t n = 0; n < w->n; n++) {
		float sum = 0;
		weight_decode(w, n, n + 1, row);
		for (int i = 0; i < w->k; i++)
			sum += row[i] * x[i];
		n_nan += isnan(sum) != 0;
		wrong += (isnan(sum) != 0) != (isnan(y[n]) != 0);
	}
	is_int(wrong, 0, "%s, %s: %d of %d rows are NaN", what, isa, n_nan, w->n);
	backend_destroy(b);
}

static void test_nan(const char *isa)
{
	enum { N = 3, K = 128 };
	static uint8_t q[N * K], scales[N * K / 16];
	float scale = 0.5f;
	memset(q, 0x31, sizeof q);
	memset(scales, 0x38, sizeof scales);
	struct weight w = {.quant = QUANT_FP8, .n = N, .k = K, .group = K, .group_n = N,
			   .q = q, .scales = &scale, .scale_type = DTYPE_F32};
	check_nan(&w, isa, "fp8 of numbers");
	q[K + 5] = 0xFF;
	check_nan(&w, isa, "fp8 with a NaN");
	memset(q, 0x31, sizeof q);
	w = (struct weight){.quant = QUANT_NVFP4, .n = N, .k = K, .group = 16, .q = q,
			    .scales = scales, .scale_type = DTYPE_F8_E4M3,
			    .global_scale = 0.25};
	scales[K / 16 + 2] = 0x7F;
	check_nan(&w, isa, "nvfp4 with a scale of NaN");
	w.quant = QUANT_MXFP4;
	w.group = 32;
	w.scale_type = DTYPE_F8_E8M0;
	scales[2 * K / 32 + 1] = 0xFF;
	check_nan(&w, isa, "mxfp4 with a scale of NaN");
}

/* --- little memory --------------------------------------------------------------- */

static bool is_low;

/* In the place of libc's: the machine has hardly any memory left while is_low, else most. */
FILE *fopen(const char *path, const char *mode)
{
	static char low[] = "MemTotal: 1000000 kB\nMemAvailable: 1000 kB\n";
	static char high[] = "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n";
	if (*mode != 'r')
		abort(); /* nobody here writes files */
	if (strcmp(path, "/proc/meminfo") == 0)
		return is_low ? fmemopen(low, sizeof low - 1, "r")
			      : fmemopen(high, sizeof high - 1, "r");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

enum { WIDE_N = 1024, WIDE_K = 1024 };

/* y (WIDE_N) of w, loaded with little memory or much. */
static void run_wide(const struct weight *w, const char *isa, bool low, float *y)
{
	struct backend_opts o = {"cpu", .n_threads = 1, .cpu_isa = isa};
	struct backend *b;
	struct weight loaded;
	float x[WIDE_K];
	if (backend_create(&o, &b, NULL) != OK)
		return;
	for (int i = 0; i < WIDE_K; i++)
		x[i] = (float)(i % 23 - 11) / 7;
	is_low = low;
	enum status st = b->ops->load_weight(b, w, &loaded, NULL);
	is_low = false;
	is_int(st, OK, "%s: a large matrix is loaded", isa);
	struct linear_args a = {.n_tok = 1, .x = x, .n_out = 1, .out = {{.w = &loaded, .y = y}}};
	is_int(b->ops->linear(b, &a), OK, "and runs");
	backend_destroy(b);
}

/* The bits of an answer are the same in every run, however much memory is free. */
static void test_low_memory(const char *isa)
{
	uint16_t *q = xmalloc(sizeof *q * WIDE_N * WIDE_K);
	float *y = xcalloc(2 * WIDE_N, sizeof *y);
	uint32_t seed = 1;
	for (int i = 0; i < WIDE_N * WIDE_K; i++) {
		seed = seed * 1664525 + 1013904223;
		q[i] = (uint16_t)(0x3C00 | (seed >> 16 & 0x81FF)); /* bf16 of either sign */
	}
	struct weight w = {.name = "w", .quant = QUANT_BF16, .n = WIDE_N, .k = WIDE_K, .q = q};
	run_wide(&w, isa, false, y);
	run_wide(&w, isa, true, y + WIDE_N);
	ok(memcmp(y, y + WIDE_N, sizeof *y * WIDE_N) == 0,
	   "%s: with little memory the bits are the same", isa);
	free(q);
	free(y);
}

int main(void)
{
	test_low_memory("avx512_bf16");
	test_low_memory("avx512");
	test_low_memory("avx2");
	test_low_memory("portable");
	test_growth();
	test_nan("avx512_bf16");
	test_nan("avx512");
	test_nan("avx2");
	test_nan("portable");
	return tap_done();
}
