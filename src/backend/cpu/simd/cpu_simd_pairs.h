/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bf16 pairs. A vector holds the same pair of columns for 16 rows of weights.
 * It is multiplied by the same pairs of up to twelve inputs. Pairs with even and with odd
 * number have separate sums, which halves the chain of dependent additions. The order is
 * the same for any number of inputs.
 *
 * Inputs are pairs of bf16 too, or floats if the processor has no instruction for pairs,
 * or a slow one. Sapphire and Emerald Rapids start a VDPBF16PS of 32 products every other
 * cycle, but two FMAs of 16 in each cycle.
 */
#pragma once
#include "backend/cpu/simd/cpu_simd.h"

#if CPU_AVX512
/* cpu_pair: a pair of 16 rows in the form that is multiplied. cpu_pair_of converts it
 * from memory. */
#if CPU_BF16_PAIRS
typedef int32_t cpu_input; /* a pair of bf16 */
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
enum { CPU_PAIR = 2 /* words of an input's pair, n_x apart */ };
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

/* Source of the weights: `w`; `w`, and also stored to `wide`; or `wide`. */
enum cpu_from { CPU_PACKED, CPU_PACKED_KEPT, CPU_WIDE };

struct cpu_pairs {
	const __m512i *w; /* (n_pairs) */
	cpu_pair *wide;   /* (n_pairs) */
	const cpu_input *x; /* (n_pairs * CPU_PAIR, n_x) */
	int n_pairs, n_x; /* n_pairs is even */
	const char *fetch, *end; /* memory to prefetch meanwhile, some lines for two pairs */
	vf scale;
	float (*acc)[CPU_ROWS]; /* receives the result: += scale times the sums */
};

/* acc[j] += scale (even[j] + odd[j]). */
VINLINE void cpu_pairs_add(vf scale, const vf *even, const vf *odd, int n_x,
			   float (*acc)[CPU_ROWS])
{
CPU_UNROLL(12)
	for (int j = 0; j < n_x; j++)
		vf_store(acc[j], vf_fma(even[j] + odd[j], scale, vf_load(acc[j])));
}

/* Prefetch the inputs of two pairs, some steps ahead. */
VINLINE void cpu_inputs_fetch(const cpu_input *x, int n_x)
{
	enum { AHEAD = 2048 /* bytes */ };
CPU_UNROLL(4)
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
CPU_UNROLL(2)
			for (int l = 0; l < lines; l++, fetch += CPU_LINE)
				__builtin_prefetch(fetch, 0, 2);
		}
		if (CPU_PAIR > 1 && n_x > 4) /* floats do not fit the first-level cache */
			cpu_inputs_fetch(x, n_x);
		cpu_pair w0 = cpu_pair_at(p, i, from), w1 = cpu_pair_at(p, i + 1, from);
CPU_UNROLL(12)
		for (int j = 0; j < n_x; j++)
			even[j] = cpu_pair_dot(even[j], w0, x + j, n_x);
CPU_UNROLL(12)
		for (int j = 0; j < n_x; j++)
			odd[j] = cpu_pair_dot(odd[j], w1, x + CPU_PAIR * n_x + j, n_x);
	}
	cpu_pairs_add(p->scale, even, odd, n_x, p->acc);
}

#define CPU_PAIRS_CASE(n) \
	case n: cpu_pairs_run(p, n, from, lines); return;

/* Multiply the pairs. lines: cache lines of `fetch` to prefetch for two pairs. */
VINLINE void cpu_pairs_go(const struct cpu_pairs *p, enum cpu_from from, int lines)
{
	switch (p->n_x) {
		CPU_EACH_TOK(CPU_PAIRS_CASE)
	}
}
#endif
