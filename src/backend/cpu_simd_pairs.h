/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs of bf16: 16 rows of weights, of which a vector has the same pair of
 * columns of each, times the same pairs of some inputs (tiles of (pairs, n_x) words). A
 * load of weights serves up to twelve inputs, and an input's pair all rows. Pairs of even
 * and of odd number have sums of their own, so that none waits for the one before: one
 * order for any number of inputs.
 */
#pragma once
#include "backend/cpu_simd.h"

#if CPU_AVX512
struct cpu_pairs {
	const __m512i *w; /* (n_pairs) */
	const int32_t *x; /* (n_pairs, n_x) */
	int n_pairs, n_x; /* n_pairs is even */
	const char *fetch, *end; /* to be asked for on the way, some lines for two pairs */
	vf scale;
	float (*acc)[CPU_ROWS]; /* += scale times the sums */
};

VINLINE vf cpu_pair_dot(vf sum, __m512i w, const int32_t *x)
{
	return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w,
				    (__m512bh)_mm512_set1_epi32(*x));
}

/* acc[j] += scale (even[j] + odd[j]). */
VINLINE void cpu_pairs_add(vf scale, const vf *even, const vf *odd, int n_x,
			   float (*acc)[CPU_ROWS])
{
#pragma GCC unroll 12
	for (int j = 0; j < n_x; j++)
		vf_store(acc[j], vf_fma(even[j] + odd[j], scale, vf_load(acc[j])));
}

VINLINE void cpu_pairs_run(const struct cpu_pairs *p, int n_x, int lines)
{
	const __m512i *w = p->w;
	const int32_t *x = p->x;
	const char *fetch = p->fetch;
	vf even[CPU_TOK] = {{0}}, odd[CPU_TOK] = {{0}};
	for (int i = 0; i < p->n_pairs; i += 2, x += 2 * n_x) {
		if (fetch < p->end) {
#pragma GCC unroll 2
			for (int l = 0; l < lines; l++, fetch += CPU_LINE)
				__builtin_prefetch(fetch, 0, 2);
		}
		__m512i w0 = w[i], w1 = w[i + 1];
#pragma GCC unroll 12
		for (int j = 0; j < n_x; j++)
			even[j] = cpu_pair_dot(even[j], w0, x + j);
#pragma GCC unroll 12
		for (int j = 0; j < n_x; j++)
			odd[j] = cpu_pair_dot(odd[j], w1, x + n_x + j);
	}
	cpu_pairs_add(p->scale, even, odd, n_x, p->acc);
}

#define CPU_PAIRS_CASE(n) \
	case n: cpu_pairs_run(p, n, lines); return;

/* lines: of `fetch`, for two pairs. */
VINLINE void cpu_pairs_go(const struct cpu_pairs *p, int lines)
{
	switch (p->n_x) {
		CPU_EACH_TOK(CPU_PAIRS_CASE)
	}
}
#endif
