/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of tile_gemm.h on their way to LDS: int4 to halves, and halves to two bf16.
 */
#pragma once
#include "kernels/linear/linear_int4_words.h"

/* The eight int4 of a word minus zero, in the order of its pairs (linear_int4_pairs). */
DEVICE u32x4 gemm_int4(uint32_t q, uint32_t minus, uint32_t plus)
{
	uint32_t pair[4];
	linear_int4_pairs(q, minus, plus, pair);
	return u32x4{pair[0], pair[1], pair[2], pair[3]};
}

/* Eight numbers in the order of int4's pairs. */
DEVICE u32x4 gemm_paired(u32x4 v)
{
	return u32x4{permute_bytes<0x5410>(v[0], v[2]), permute_bytes<0x7632>(v[0], v[2]),
		     permute_bytes<0x5410>(v[1], v[3]), permute_bytes<0x7632>(v[1], v[3])};
}

/* Split two f16 into bf16: high is the upper half of each f32, low the remainder. */
DEVICE void gemm_split(uint32_t pair, uint32_t *high, uint32_t *low)
{
	float x = f16_to_f32((uint16_t)pair), y = f16_to_f32((uint16_t)(pair >> 16));
	uint32_t a = bits_cast<uint32_t>(x), b = bits_cast<uint32_t>(y);
	*high = a >> 16 | (b & 0xFFFF0000u);
	x -= bits_cast<float>(a & 0xFFFF0000u);
	y -= bits_cast<float>(b & 0xFFFF0000u);
	*low = bits_cast<uint32_t>(x) >> 16 | (bits_cast<uint32_t>(y) & 0xFFFF0000u);
}
