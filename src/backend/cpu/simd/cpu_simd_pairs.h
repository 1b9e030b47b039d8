/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs of bf16: 16 rows of weights, of which a vector has the same pair of
 * columns of each, times the same pairs of some inputs. A load of weights serves up to
 * twelve inputs, and an input's pair all rows. Pairs of even and of odd number have sums
 * of their own, so that none waits for the one before: one order for any number of inputs.
 *
 * Inputs are pairs of bf16 as well, or floats where there is no instruction for pairs, or
 * a slow one: Sapphire and Emerald Rapids begin a VDPBF16PS of 32 products every other
 * cycle, and two FMAs of 16 in each.
 */
#pragma once
#include "backend/cpu/simd/cpu_simd.h"

#if CPU_AVX512
/* A pair of 16 rows as it is multiplied, of what lies in memory. */
#if CPU_BF16_PAIRS
typedef int32_t cpu_input; /* a pair */
enum { CPU_PAIR = 1 };
typedef __m512i cpu_pair;

VINLINE cpu_pair cpu_pair_of(__m512i v)
{
	return v;
}

VINLINE vf cpu_pair_dot(vf sum, cpu_pair w, const cpu_input *x, int n_x)
{
	(void)n_x;
	return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w,
				    (__m512bh)_mm512_set1_epi32(*x));
}
#else
typedef float cpu_input;
enum { CPU_PAIR = 2 /* inputs of a pair, n_x apart */ };
typedef struct {
	vf first, second;
} cpu_pair;

VINLINE cpu_pair cpu_pair_of(__m512i v)
{
	return (cpu_pair){(vf)((vu)v << 16), (vf)((vu)v & 0xFFFF0000)};
}

VINLINE vf cpu_pair_dot(vf sum, cpu_pair w, const cpu_input *x, int n_x)
{
	sum = vf_fma(w.first, vf_all(x[0]), sum);
	return vf_fma(w.second, vf_all(x[n_x]), sum);
}
#endif

/* Where weights are taken from: `w`; from there and kept in `wide`; or `wide`. */
enum cpu_from { CPU_PACKED, CPU_PACKED_KEPT, CPU_WIDE };

struct cpu_pairs {
	const __m512i *w; /* (n_pairs) */
	cpu_pair *wide;   /* (n_pairs) */
	const cpu_input *x; /* (n_pairs * CPU_PAIR, n_x) */
	int n_pairs, n_x; /* n_pairs is even */
	const char *fetch, *end; /* to be asked for on the way, some lines for two pairs */
	vf scale;
	float (*acc)[CPU_ROWS]; /* += scale times the sums */
};

/* acc[j] += scale (even[j] + odd[j]). */
VINLINE void cpu_pairs_add(vf scale, const vf *even, const vf *odd, int n_x,
			   float (*acc)[CPU_ROWS])
{
#pragma GCC unroll 12
	for (int j = 0; j < n_x; j++)
		vf_store(acc[j], vf_fma(even[j] + odd[j], scale, vf_load(acc[j])));
}

/* Those of two pairs, some steps ahead. */
VINLINE void cpu_inputs_fetch(const cpu_input *x, int n_x)
{
	enum { AHEAD = 2048 /* bytes */ };
#pragma GCC unroll 4
	for (int l = 0; l < 2 * CPU_PAIR * n_x * (int)sizeof *x; l += CPU_LINE)
		__builtin_prefetch((const char *)x + AHEAD + l, 0, 3);
}

VINLINE cpu_pair cpu_pair_at(const struct cpu_pairs *p, int i, enum cpu_from from)
{
	if (from == CPU_WIDE)
		return p->wide[i];
	cpu_pair w = cpu_pair_of(p->w[i]);
	if (from == CPU_PACKED_KEPT)
		p->wide[i] = w;
	return w;
}

VINLINE void cpu_pairs_run(const struct cpu_pairs *p, int n_x, enum cpu_from from, int lines)
{
	const cpu_input *x = p->x;
	const char *fetch = p->fetch;
	vf even[CPU_TOK] = {{0}}, odd[CPU_TOK] = {{0}};
	for (int i = 0; i < p->n_pairs; i += 2, x += 2 * CPU_PAIR * n_x) {
		if (fetch < p->end) {
#pragma GCC unroll 2
			for (int l = 0; l < lines; l++, fetch += CPU_LINE)
				__builtin_prefetch(fetch, 0, 2);
		}
		if (CPU_PAIR > 1 && n_x > 4) /* floats: too many for the first level */
			cpu_inputs_fetch(x, n_x);
		cpu_pair w0 = cpu_pair_at(p, i, from), w1 = cpu_pair_at(p, i + 1, from);
#pragma GCC unroll 12
		for (int j = 0; j < n_x; j++)
			even[j] = cpu_pair_dot(even[j], w0, x + j, n_x);
#pragma GCC unroll 12
		for (int j = 0; j < n_x; j++)
			odd[j] = cpu_pair_dot(odd[j], w1, x + CPU_PAIR * n_x + j, n_x);
	}
	cpu_pairs_add(p->scale, even, odd, n_x, p->acc);
}

#define CPU_PAIRS_CASE(n) \
	case n: cpu_pairs_run(p, n, from, lines); return;

/* lines: of `fetch`, for two pairs. */
VINLINE void cpu_pairs_go(const struct cpu_pairs *p, enum cpu_from from, int lines)
{
	switch (p->n_x) {
		CPU_EACH_TOK(CPU_PAIRS_CASE)
	}
}
#endif
