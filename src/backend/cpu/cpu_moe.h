/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two ways of computing experts share, and the fast one. Thread: engine.
 */
#pragma once
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"

/* Do all of e go the fast way, and the same? Of each kind of weight. */
bool cpu_moe_fast_can(const struct backend *b, const struct experts *e);
/* moe_experts without the shared expert. */
enum status cpu_moe_fast(struct backend *b,
			 const struct moe_experts_args *a) MUST_USE;

/* A counting sort of the pairs t*U+u by expert, into a->work behind E + 1 offsets: the
 * pairs (T*U). a->work[e] is where those of expert e end then; *behind: what of a->work is
 * left. */
const int32_t *cpu_moe_sort(const struct moe_experts_args *a, int32_t **behind);

/* n_rows of a bias from `at` on; zeros where there is none. */
VEC4_INLINE vec4 bias4(const float *bias, size_t at, int n_rows)
{
	vec4 v = {0};
	for (int r = 0; bias && r < n_rows; r++)
		v[r] = bias[at + (size_t)r];
	return v;
}
