/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations of the sources of one instruction set, for its table (cpu_simd_float.c).
 */
#pragma once
#include "backend/cpu/simd/cpu_vec.h"

enum {
	CPU_ROWS = CPU_PANEL_ROWS,
#if CPU_AVX512 || CPU_AVX2
	CPU_Q_WORDS = CPU_BLOCK / 4,
#else
	CPU_Q_WORDS = CPU_BLOCK / 2,
#endif
};

/* Load VL numbers of type t as floats, from element `at` of p on. */
VINLINE vf cpu_floats(const void *p, enum dtype t, size_t at)
{
	if (t == DTYPE_F32)
		return vf_load((const float *)p + at);
	vhalf h = vhalf_load((const uint16_t *)p + at);
	return t == DTYPE_BF16 ? vf_of_bf16(h) : vf_of_f16(h);
}

/* Expands X(n) for each possible number of inputs in a tile. */
#define CPU_EACH_TOK(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
_Static_assert(CPU_TOK == 12, "CPU_EACH_TOK");

enum { CPU_AHEAD = 8192 /* bytes */, CPU_LINE = 64 };

/* Prefetch a block's share of a panel, line by line in memory order, codes and scales.
 * The share has `bits` lines of codes and one for scales. It must have no gaps, whatever
 * the order of reading: each gap restarts the processor's own prefetching, which costs
 * time. */
VINLINE void cpu_fetch(const uint8_t *at, int bits)
{
CPU_UNROLL(9)
	for (int i = 0; i <= bits; i++)
		__builtin_prefetch(at + CPU_AHEAD + CPU_LINE * i, 0, 2);
}

#if CPU_AVX512
/* Select the even, and the odd, 128-bit parts of a and b. */
VINLINE void split_lanes(__m512i a, __m512i b, __m512i *even, __m512i *odd)
{
	*even = _mm512_shuffle_i32x4(a, b, 0x88);
	*odd = _mm512_shuffle_i32x4(a, b, 0xDD);
}

/* Transpose: lane l of v[r] goes to lane r of v[l]. */
VINLINE void transpose_words(__m512i *v)
{
	__m512i t[VL];
CPU_UNROLL(8)
	for (int i = 0; i < VL; i += 2) {
		t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
	}
	/* now v[4 b + c] holds, for each four lanes, lane c of rows 4 b .. 4 b + 3 */
CPU_UNROLL(4)
	for (int i = 0; i < VL; i += 4) {
		v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
CPU_UNROLL(4)
	for (int c = 0; c < 4; c++) {
		split_lanes(v[c], v[c + 4], &t[c], &t[c + 4]);
		split_lanes(v[c + 8], v[c + 12], &t[c + 8], &t[c + 12]);
	}
CPU_UNROLL(4)
	for (int c = 0; c < 4; c++) {
		split_lanes(t[c], t[c + 8], &v[c], &v[c + 8]);
		split_lanes(t[c + 4], t[c + 12], &v[c + 4], &v[c + 12]);
	}
}

VINLINE vi bytes_dot(vi sum, vi w, int32_t x)
{
	return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(x));
}
#else
/* Add pairs of 16-bit integers. */
VINLINE vi add_pairs(vh v)
{
#if CPU_AVX2
	return (vi)_mm256_madd_epi16((__m256i)v, _mm256_set1_epi16(1));
#else
	return ((vi)v >> 16) + (((vi)((vu)(vi)v << 16)) >> 16);
#endif
}

/* In each 16 bits: the sum of two products w x. 16 bits hold one such sum for w up to
 * 128, four for w below 32, and eight for w below 16. Without byte products, the second
 * half of a tile's word is n_x words further. */
VINLINE vh words_dot(vi w, const int32_t *x, int n_x)
{
#if CPU_AVX2
	return (vh)_mm256_maddubs_epi16((__m256i)w, _mm256_set1_epi32(*x));
#else
	vh even = (vh)(w & 0x00FF00FF), odd = (vh)((vi)((vu)w >> 8) & 0x00FF00FF);
	return even * (vh)vi_all(x[0]) + odd * (vh)vi_all(x[n_x]);
#endif
}
#endif

void ISA_SHARED(cpu_quantize)(const struct cpu_rounding *r, const float *const *x, int n_x,
			      int32_t *tile);
/* Multiply a panel by all tiles: its 4- or 8-bit integers, its bf16, its e4m3, its codes. */
#if CPU_AVX512
void ISA_SHARED(cpu_panel_integers)(const struct cpu_panels *w, int32_t i_panel,
				    const struct cpu_tiles *t,
				    float (*out)[CPU_TOK][CPU_PANEL_ROWS]);
void ISA(cpu_panel_bf16)(const struct cpu_panels *w, int32_t i_panel,
			 const struct cpu_tiles *t,
			 float (*out)[CPU_TOK][CPU_PANEL_ROWS]);
#endif
void ISA(cpu_panel_e4m3)(const struct cpu_panels *w, int32_t i_panel,
			 const struct cpu_tiles *t,
			 float (*out)[CPU_TOK][CPU_PANEL_ROWS]);
void ISA_SHARED(cpu_panel_codes)(const struct cpu_panels *w, int32_t i_panel,
				 const struct cpu_tiles *t,
				 float (*out)[CPU_TOK][CPU_PANEL_ROWS]);
void ISA(cpu_spread)(const float *const *x, int n_x, int32_t k, int planes, void *tile);
void ISA_SHARED(cpu_attend)(const struct cpu_attend *u, int32_t from, int32_t to);
void ISA_SHARED(cpu_attend_join)(struct cpu_state *s, const struct cpu_state *other,
				 int v_dim);
void ISA_SHARED(cpu_norm)(const float *x, int n, float eps, const float *weight, float *y);
void ISA_SHARED(cpu_rotate)(float *x, int n, const float *rope);
void ISA_SHARED(cpu_delta)(const struct cpu_delta *d, const float *from, float *to);
void ISA_SHARED(cpu_conv)(const struct cpu_conv *c, float (*window)[16]);
void ISA_SHARED(cpu_sigmoid_mul)(const float *gate, size_t n, float *y);
void ISA_SHARED(cpu_act_mul)(const struct activation *act, const float *gate,
			     const float *up, size_t n, float *y);
void ISA_SHARED(cpu_to_half)(const float *x, int32_t n, uint16_t *out);
