/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the two ways of computing experts, and the fast way itself. Thread: engine.
 */
#pragma once
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"

/* True if all experts of e can use the fast way. Each kind of weight (gate, up, down) must
 * have the same way in all of them. */
bool cpu_moe_fast_can(const struct backend *b, const struct experts *e);
/* moe_experts without the shared expert, fast way. */
enum status cpu_moe_fast(struct backend *b,
			 const struct moe_experts_args *a) MUST_USE;

/* Sort the pairs t*U+u by expert (counting sort). Returns the sorted pairs (T*U), stored
 * in a->work after E + 1 offsets. Afterwards a->work[e] is the end of expert e's pairs,
 * and *behind is the unused rest of a->work. */
const int32_t *cpu_moe_sort(struct backend *b, const struct moe_experts_args *a,
			    int32_t **behind);

/* What adapters add (a->lora): to gate and up, computed once id is known, as a row (F) for a pair
 * t*U+u and MOE_LORA_GATE or MOE_LORA_UP; NULL: nothing. */
enum status cpu_lora_up(struct backend *b, const struct moe_experts_args *a) MUST_USE;
const float *cpu_lora_high(const struct moe_experts_args *a, int32_t pair, int which);
/* To y, behind down. order: the pair of each row of h, or NULL. */
enum status cpu_lora_down(struct backend *b, const struct moe_experts_args *a,
			  const int32_t *order) MUST_USE;

/* n_rows elements of a bias from `at` on; zeros if there is no bias. */
VEC4_INLINE vec4 bias4(const float *bias, size_t at, int n_rows)
{
	vec4 v = {0};
	for (int r = 0; bias && r < n_rows; r++)
		v[r] = bias[at + (size_t)r];
	return v;
}
