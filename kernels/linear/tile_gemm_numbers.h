/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of tile_gemm.h on their way to LDS: int4 to halves, and halves to two bf16.
 */
#pragma once
#include "kernels/device/dialect.h"

/* The eight int4 of a word minus zero. is_paired: in the order of the pairs in a word, 0 4 1 5 2
 * 6 3 7, else in their own. Both halves of `minus` are 1024 + zero. Nibbles that stand four bits
 * up are 1024 + 16 n and are scaled by 1/16; for these both halves of `plus` are -(64 + zero). */
template <bool is_paired>
DEVICE u32x4 gemm_int4(uint32_t q, uint32_t minus, uint32_t plus)
{
	uint32_t high = q >> 8;
	uint32_t p04 = sub2_f16(and_or(q, 0x000F000Fu, 0x64006400u), minus);
	uint32_t p15 = fma2_f16(and_or(q, 0x00F000F0u, 0x64006400u), 0x2C002C00u, plus);
	uint32_t p26 = sub2_f16(and_or(high, 0x000F000Fu, 0x64006400u), minus);
	uint32_t p37 = fma2_f16(and_or(high, 0x00F000F0u, 0x64006400u), 0x2C002C00u, plus);
	if constexpr (is_paired)
		return u32x4{p04, p15, p26, p37};
	return u32x4{permute_bytes<0x5410>(p04, p15), permute_bytes<0x5410>(p26, p37),
		     permute_bytes<0x7632>(p04, p15), permute_bytes<0x7632>(p26, p37)};
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
