/* SPDX-License-Identifier: Apache-2.0
 *
 * Dot products of rows in the file's layout (F32, F16 or BF16) with inputs as floats.
 *
 * A dot product has one vector of sums: lane l adds elements l, l + VL …. Then the lanes
 * are added, halves first. So the order depends on K alone. Four rows are multiplied by
 * up to six inputs, so that 24 sums stay in registers.
 */
#include "backend/cpu/simd/cpu_simd.h"

#include <string.h>

#include "base/alloc.h"

enum { ROWS = CPU_DOT_ROWS, TOK = CPU_DOT_TOK };

VINLINE size_t weight_size(enum cpu_number m)
{
	return m == CPU_F32 ? 4 : 2;
}

/* Elements of an input, padded to whole vectors. */
static size_t padded(int32_t k)
{
	return ROUND_UP((size_t)k, VL);
}

static size_t input_bytes(int32_t k)
{
	return padded(k) * sizeof(float);
}

static void input(const float *x, int32_t k, void *out)
{
	memcpy(out, x, (size_t)k * sizeof *x);
	memset((float *)out + k, 0, (padded(k) - (size_t)k) * sizeof *x);
}

VINLINE vf widen(enum cpu_number m, const char *w)
{
	if (m == CPU_F32)
		return vf_load((const void *)w);
	vhalf h = vhalf_load((const void *)w);
	return m == CPU_F16 ? vf_of_f16(h) : vf_of_bf16(h);
}

/* acc += the products of one vector of each row and input. */
VINLINE void step(enum cpu_number m, const char *const *w, const char *x, size_t pitch,
		  int n_x, vf (*acc)[ROWS])
{
	vf rows[ROWS];
CPU_UNROLL(4)
	for (int r = 0; r < ROWS; r++)
		rows[r] = widen(m, w[r]);
CPU_UNROLL(6)
	for (int j = 0; j < n_x; j++) {
		vf v = vf_load((const void *)(x + pitch * (size_t)j));
CPU_UNROLL(4)
		for (int r = 0; r < ROWS; r++)
			acc[j][r] = vf_fma(rows[r], v, acc[j][r]);
	}
}

/* Prefetch the rows after these four, line by line in memory order: one sequential stream
 * is faster than four. This assumes that the rows are contiguous. `at`: bytes of each row
 * done so far; n_bytes: bytes of this step. */
VINLINE void fetch(const char *const *row, size_t at, size_t n_bytes)
{
	const char *next = row[0] + (row[1] - row[0]) * ROWS + at * ROWS;
CPU_UNROLL(4)
	for (size_t i = 0; i < n_bytes * ROWS; i += 64)
		__builtin_prefetch(next + i, 0, 2);
}

VINLINE void dots_n(enum cpu_number m, const char *const *row, const char *x, size_t pitch,
		    int n_x, int32_t k, bool fetches, float (*out)[ROWS])
{
	const size_t size = weight_size(m);
	vf acc[TOK][ROWS] = {{{0}}};
	const char *w[ROWS];
	int32_t i = 0;
	for (; i + VL <= k; i += VL) {
		size_t at = (size_t)i * size;
CPU_UNROLL(4)
		for (int r = 0; r < ROWS; r++)
			w[r] = row[r] + at;
		if (fetches)
			fetch(row, at, (size_t)VL * size);
		step(m, w, x + (size_t)i * sizeof(float), pitch, n_x, acc);
	}
	if (i < k) {
		char rest[ROWS][4 * VL] = {{0}};
		for (int r = 0; r < ROWS; r++) {
			memcpy(rest[r], row[r] + (size_t)i * size,
			       (size_t)(k - i) * size);
			w[r] = rest[r];
		}
		step(m, w, x + (size_t)i * sizeof(float), pitch, n_x, acc);
	}
CPU_UNROLL(6)
	for (int j = 0; j < n_x; j++)
		vec4_store(out[j], vf_sums(acc[j]));
}

#define EACH_COUNT(X, q) X(1, q) X(2, q) X(3, q) X(4, q) X(5, q) X(6, q)
#define DEFINE(n, q) \
	static void dots_##q##_##n(const char *const *row, const char *x, size_t pitch, \
				   int32_t k, bool fetches, float (*out)[ROWS]) \
	{ \
		dots_n(CPU_##q, row, x, pitch, n, k, fetches, out); \
	}
EACH_COUNT(DEFINE, F32)
EACH_COUNT(DEFINE, F16)
EACH_COUNT(DEFINE, BF16)

static void dots(enum cpu_number m, const void *const *w, int n_w, const void *x,
		 size_t pitch, int n_x, int32_t k, bool fetches, float (*out)[ROWS])
{
	typedef void one(const char *const *row, const char *x, size_t pitch, int32_t k,
			 bool fetches, float (*out)[ROWS]);
#define NAME(n, q) dots_##q##_##n,
	static one *const all[][TOK] = {
		[CPU_F32] = {EACH_COUNT(NAME, F32)},
		[CPU_F16] = {EACH_COUNT(NAME, F16)},
		[CPU_BF16] = {EACH_COUNT(NAME, BF16)},
	};
	const char *row[ROWS];
	for (int r = 0; r < ROWS; r++)
		row[r] = w[MIN(r, n_w - 1)];
	all[m][n_x - 1](row, x, pitch, k, fetches, out);
}

_Static_assert(CPU_DOT_TOK == 6 && CPU_DOT_ROWS == 4, "EACH_COUNT, dots_n");

/* Multiply a panel of any form. */
static void panel(const struct cpu_panels *w, int32_t i_panel, const struct cpu_tiles *t,
		  float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
#if CPU_AVX512
	if (w->form == CPU_FORM_4 || w->form == CPU_FORM_8) {
		ISA_SHARED(cpu_panel_integers)(w, i_panel, t, out);
		return;
	}
	if (w->form == CPU_FORM_BF16) {
		ISA(cpu_panel_bf16)(w, i_panel, t, out);
		return;
	}
#endif
	if (w->form == CPU_FORM_E4M3)
		ISA(cpu_panel_e4m3)(w, i_panel, t, out);
	else
		ISA_SHARED(cpu_panel_codes)(w, i_panel, t, out);
}

const struct cpu_isa ISA(cpu_isa) = {
	.name = ISA_NAME,
#if CPU_AVX512 || CPU_AVX2
	.kv_type = DTYPE_F16,
	.to_half = ISA_SHARED(cpu_to_half),
#else
	.kv_type = DTYPE_F32,
#endif
	.q_words = CPU_Q_WORDS,
	.quantize = ISA_SHARED(cpu_quantize),
	.panel = panel,
	.spread = ISA(cpu_spread),
	.input_bytes = input_bytes,
	.input = input,
	.dots = dots,
	.norm = ISA_SHARED(cpu_norm),
	.rotate = ISA_SHARED(cpu_rotate),
	.act_mul = ISA_SHARED(cpu_act_mul),
	.delta = ISA_SHARED(cpu_delta),
	.conv = ISA_SHARED(cpu_conv),
	.sigmoid_mul = ISA_SHARED(cpu_sigmoid_mul),
	.attend = ISA_SHARED(cpu_attend),
	.attend_join = ISA_SHARED(cpu_attend_join),
#if CPU_AVX512
	.packs_bf16 = true,
#endif
#if CPU_BF16_PAIRS
	.has_bf16_pairs = true,
#endif
};
