/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels of bf16 times inputs as bf16 or floats. This file also prepares such inputs,
 * which panels of FP8 use too.
 *
 * A segment of the columns is summed for all tiles of inputs before the next one, so that
 * its weights stay in the first-level cache. Each tile prefetches a share of the next
 * segment; prefetching all of it during the first tile would stall. If inputs are floats
 * and there are several tiles, the first one stores the weights as floats for the others.
 *
 * TRIED     (two Zen 4 cores, prefill of 512, 64 tokens an expert) rows in the file's
 *           layout, transposed by shuffles in each step: a sixth of the time was spent
 *           there.
 */
#include "backend/cpu/simd/cpu_simd_pairs.h"

#if CPU_AVX512
enum { ROWS = CPU_ROWS, STEP = 32 /* columns */, PAIRS = STEP / 2,
       SEGMENT = 256 / CPU_PAIR /* pairs */,
       /* in bytes. Zen 4: 4096 and more make decode up to 10 % slower. Intel: smaller is slower
        * too, and 8192 is some percent faster */
       AHEAD = CPU_BF16_PAIRS ? 3072 : 8192 };

/* --- inputs ------------------------------------------------------------------------ */

#if CPU_BF16_PAIRS
/* Round 16 elements of x, from i on, to pairs of bf16; `left` elements remain. With two
 * planes, the rounding errors follow. */
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
		transpose_words(v);
		for (size_t c = 0; c < n; c++, out += places)
			_mm512_mask_storeu_epi32(out, mask, v[c]);
	}
}

#else
void ISA(cpu_spread)(const float *const *x, int n_x, int32_t k, int planes, void *tile)
{
	const __mmask16 mask = (__mmask16)((1u << n_x) - 1);
	const int32_t n = (int32_t)cpu_pairs_of(k) * 2;
	float *out = tile;
	for (int32_t i = 0; i < n; i += VL) {
		const __mmask16 there = (__mmask16)(k - i < VL ? (1u << (k - i)) - 1 : 0xFFFF);
		__m512i v[VL];
		for (int j = 0; j < n_x; j++)
			v[j] = _mm512_maskz_loadu_epi32(there, x[j] + i);
		for (int j = n_x; j < VL; j++)
			v[j] = _mm512_setzero_si512();
		transpose_words(v);
		for (int c = 0; c < VL && i + c < n; c++, out += n_x)
			_mm512_mask_storeu_epi32(out, mask, v[c]);
	}
}
#endif

/* --- a panel ----------------------------------------------------------------------- */

void ISA(cpu_panel_bf16)(const struct cpu_panels *w, int32_t i_panel,
			 const struct cpu_tiles *t,
			 float (*out)[CPU_TOK][CPU_PANEL_ROWS])
{
	const __m512i *q = (const void *)cpu_panels_at(w, i_panel);
	const int n_pairs = (int)cpu_pairs_of(w->k);
	cpu_pair wide[SEGMENT];
	memset(out, 0, (size_t)t->n * sizeof *out);
	for (int at = 0; at < n_pairs; at += SEGMENT) {
		int n = n_pairs - at < SEGMENT ? n_pairs - at : SEGMENT;
		struct cpu_pairs p = {.w = q + at, .wide = wide, .n_pairs = n,
				      .scale = vf_all(1)};
		const char *next = (const char *)(q + at) + (t->n == 1 ? AHEAD : n * CPU_LINE);
		const cpu_input *x = t->at;
		for (int i = 0; i < t->n; i++) {
			p.n_x = t->n_x[i];
			p.x = x + at * CPU_PAIR * p.n_x;
			p.acc = out[i];
			p.fetch = next;
			p.end = next += n * CPU_LINE / t->n;
			if (CPU_PAIR == 1 || t->n == 1)
				cpu_pairs_go(&p, CPU_PACKED, 2);
			else if (i == 0)
				cpu_pairs_go(&p, CPU_PACKED_KEPT, 2);
			else
				cpu_pairs_go(&p, CPU_WIDE, 2);
			x += n_pairs * CPU_PAIR * p.n_x;
		}
	}
}
#endif
