/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the kernels of int4 weights: a word of weights as pairs of halves, and the
 * parts of a launch (linear_int4.h).
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/linear/linear_int4.h"

/* Load WORDS neighbouring words of weights. IS_CACHED: other workgroups read them, too. */
template <int WORDS, bool IS_CACHED = false>
DEVICE void load_words(const uint32_t *p, uint32_t *out)
{
	if constexpr (WORDS == 4) {
		u32x4 v = IS_CACHED ? load_global<u32x4>(p) : load_nt<u32x4>(p);
		UNROLL
		for (int i = 0; i < 4; i++)
			out[i] = v[i];
	} else if constexpr (WORDS == 2) {
		u32x2 v = IS_CACHED ? load_global<u32x2>(p) : load_nt<u32x2>(p);
		out[0] = v[0];
		out[1] = v[1];
	} else {
		out[0] = IS_CACHED ? load_global<uint32_t>(p) : load_nt<uint32_t>(p);
	}
}

/* Pair up the halves of two words of activations: (lo of a, lo of b), (hi of a, hi of b). */
DEVICE uint32_t pair_lo(uint32_t a, uint32_t b)
{
	return (a & 0xFFFFu) | b << 16;
}

DEVICE uint32_t pair_hi(uint32_t a, uint32_t b)
{
	return a >> 16 | (b & 0xFFFF0000u);
}

/* The eight weights of a word minus zero, as pairs (0 4) (1 5) (2 6) (3 7). Both halves
 * of `minus` are 1024 + zero. Odd pairs keep their nibbles four bits up, as 1024 + 16 n,
 * and are scaled by 1/16; both halves of `plus` are then -(64 + zero). */
DEVICE void linear_int4_pairs(uint32_t q, uint32_t minus, uint32_t plus, uint32_t *out)
{
	uint32_t high = q >> 8;
	out[0] = sub2_f16(and_or(q, 0x000F000Fu, 0x64006400u), minus);
	out[1] = fma2_f16(and_or(q, 0x00F000F0u, 0x64006400u), 0x2C002C00u, plus);
	out[2] = sub2_f16(and_or(high, 0x000F000Fu, 0x64006400u), minus);
	out[3] = fma2_f16(and_or(high, 0x00F000F0u, 0x64006400u), 0x2C002C00u, plus);
}

/* Returns the number stored. */
DEVICE float linear_int4_put(const linear_int4_part *p, int32_t t, int32_t row, float x)
{
	if (p->bias)
		x += p->bias[row];
	return linear_store(p->y, (size_t)t * (size_t)p->n + (size_t)row, x, p->store);
}

/* The part that this workgroup works on; *first and *end are the indices of the part's first
 * workgroup and after its last one. */
DEVICE linear_int4_part linear_int4_find(const linear_int4_args *a, int32_t *first, int32_t *end)
{
	int32_t group = (int32_t)group_index_x(), i = 0;
	UNROLL
	for (int n = 0; n < LINEAR_INT4_MAX_PART - 1; n++)
		i += group >= a->first_group[n];
	linear_int4_part p = a->part[LINEAR_INT4_MAX_PART - 1];
	*first = a->first_group[LINEAR_INT4_MAX_PART - 2];
	*end = a->grid;
	UNROLL
	for (int n = LINEAR_INT4_MAX_PART - 2; n >= 0; n--)
		if (i == n) {
			p = a->part[n];
			*first = n ? a->first_group[n - 1] : 0;
			*end = a->first_group[n];
		}
	*end = *end < a->grid ? *end : a->grid;
	return p;
}
