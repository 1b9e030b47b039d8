/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels of bf16 times inputs rounded to that, and these inputs, which panels of FP8 take
 * too. Sums of a segment's pairs are made before they are added to the row's, so that its
 * weights stay in the first-level cache while tiles of inputs pass.
 *
 * TRIED (two Zen 4 cores, prefill of 512, 64 tokens an expert): rows as they lie in the
 * file, turned by shuffles for each step: a sixth of the time went there.
 */
#include "backend/cpu_simd_pairs.h"

#if CPU_AVX512
enum { ROWS = CPU_ROWS, STEP = 32 /* columns */, PAIRS = STEP / 2,
       SEGMENT = 256 /* pairs */,
       AHEAD = 3072 /* bytes; Zen 4: from 4096 on decode is up to 10 % slower, Intel: below */ };

/* --- inputs ------------------------------------------------------------------------ */

/* The even and the odd parts, of 128 bits, of a and b. */
VINLINE void split_lanes(__m512i a, __m512i b, __m512i *even, __m512i *odd)
{
	*even = _mm512_shuffle_i32x4(a, b, 0x88);
	*odd = _mm512_shuffle_i32x4(a, b, 0xDD);
}

/* Lane l of v[r] to lane r of v[l]. */
VINLINE void turn(__m512i *v)
{
	__m512i t[ROWS];
#pragma GCC unroll 8
	for (int i = 0; i < ROWS; i += 2) {
		t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
	}
	/* v[4 b + c]: of each four lanes, lane c of rows 4 b .. 4 b + 3 */
#pragma GCC unroll 4
	for (int i = 0; i < ROWS; i += 4) {
		v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
#pragma GCC unroll 4
	for (int c = 0; c < 4; c++) {
		split_lanes(v[c], v[c + 4], &t[c], &t[c + 4]);
		split_lanes(v[c + 8], v[c + 12], &t[c + 8], &t[c + 12]);
	}
#pragma GCC unroll 4
	for (int c = 0; c < 4; c++) {
		split_lanes(t[c], t[c + 8], &v[c], &v[c + 8]);
		split_lanes(t[c + 4], t[c + 12], &v[c + 4], &v[c + 12]);
	}
}

/* Pair by pair, the 16 from element i on of x, of which there are `left`; with two planes
 * then what rounding leaves. */
VINLINE void round_pairs(const float *x, size_t i, size_t left, int planes, __m512i *out)
{
	uint32_t mask = left < STEP ? (1u << left) - 1 : ~0u;
	vf low = (vf)_mm512_maskz_loadu_ps((__mmask16)mask, x + i), high = {0};
	if (left > VL)
		high = (vf)_mm512_maskz_loadu_ps((__mmask16)(mask >> VL), x + i + VL);
	for (int p = 0; p < planes; p++) {
		__m256i l = (__m256i)_mm512_cvtneps_pbh((__m512)low);
		__m256i h = (__m256i)_mm512_cvtneps_pbh((__m512)high);
		out[p] = _mm512_inserti64x4(_mm512_castsi256_si512(l), h, 1);
		low -= vf_of_bf16((vhalf)l);
		high -= vf_of_bf16((vhalf)h);
	}
}

void ISA(cpu_spread)(const float *const *x, int n_x, int32_t k, int planes, void *tile)
{
	const size_t places = (size_t)(n_x * planes), n_pairs = cpu_pairs_of(k);
	const __mmask16 mask = (__mmask16)((1u << places) - 1);
	int32_t *out = tile;
	for (size_t i = 0; i < n_pairs; i += PAIRS) {
		__m512i v[ROWS];
		const size_t n = n_pairs - i < PAIRS ? n_pairs - i : PAIRS;
		for (int j = 0; j < n_x; j++)
			round_pairs(x[j], 2 * i, (size_t)k - 2 * i, planes, v + j * planes);
		if (places == 1) {
			_mm512_mask_storeu_epi32(out, (__mmask16)((1u << n) - 1), v[0]);
			out += n;
			continue;
		}
		for (size_t j = places; j < ROWS; j++)
			v[j] = _mm512_setzero_si512();
		turn(v);
		for (size_t c = 0; c < n; c++, out += places)
			_mm512_mask_storeu_epi32(out, mask, v[c]);
	}
}

/* --- a panel ----------------------------------------------------------------------- */

void ISA(cpu_panel_bf16)(const struct cpu_panels *w, int32_t i_panel,
			 const struct cpu_tiles *t,
			 float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	const __m512i *q = (const void *)cpu_panels_at(w, i_panel);
	const int n_pairs = (int)cpu_pairs_of(w->k);
	memset(out, 0, (size_t)t->n * sizeof *out);
	for (int at = 0; at < n_pairs; at += SEGMENT) {
		int n = n_pairs - at < SEGMENT ? n_pairs - at : SEGMENT;
		struct cpu_pairs p = {.w = q + at, .n_pairs = n, .scale = vf_all(1),
				      .fetch = (const char *)(q + at) + AHEAD};
		const int32_t *x = t->at;
		for (int i = 0; i < t->n; i++) {
			p.n_x = t->n_x[i];
			p.x = x + at * p.n_x;
			p.acc = out[i];
			cpu_pairs_go(&p, 2);
			p.fetch = NULL;
			x += n_pairs * p.n_x;
		}
	}
}
#endif
