/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by both kinds of attention: turning a block of scores into weights.
 */
#pragma once
#include "backend/cpu/simd/cpu_simd.h"

/* -1 (all bits set) in lanes [lo, hi), where the vector's first lane has number `first`. */
VINLINE vi lanes_of(int first, int lo, int hi)
{
	static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
					    14, 15};
	vi lane = vi_load(numbers) + first;
	return (lane >= vi_all(lo)) & (lane < vi_all(hi));
}

/* Turn scores [lo, hi) of p (n_vec vectors) into weights, and the others into 0. Returns
 * the factor of the earlier sums of values. */
VINLINE float cpu_weigh(struct cpu_state *s, float *p, int n_vec, int lo, int hi)
{
	float before = s->max, factor = 1;
	vf most = vf_all(before), sum = {0};
CPU_UNROLL(4)
	for (int v = 0; v < n_vec; v++) {
		vf score = vf_load(p + VL * v);
		most = vf_select(lanes_of(VL * v, lo, hi) & (score > most), score, most);
	}
	float max = vf_largest(most);
	if (max > before) {
		if (s->sum > 0)
			factor = vf_exp(vf_all(before - max))[0];
		s->sum *= factor;
		s->max = max;
	}
CPU_UNROLL(4)
	for (int v = 0; v < n_vec; v++) {
		vf weight = vf_exp(vf_load(p + VL * v) - vf_all(max));
		weight = (vf)(lanes_of(VL * v, lo, hi) & (vi)weight);
		vf_store(p + VL * v, weight);
		sum += weight;
	}
	s->sum += vf_sum(sum);
	return factor;
}
