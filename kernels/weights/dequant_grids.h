/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight weights of the formats that have a grid: IQ1, IQ2 and IQ3. quant_blocks.c in
 * src/model/formats describes them.
 */
#pragma once
#include "kernels/weights/block_bytes.h"

#include "src/model/formats/iq1_grid.h"
#include "src/model/formats/iq2_grids.h"
#include "src/model/formats/iq2xxs_grid.h"
#include "src/model/formats/iq3_grids.h"

/* The low seven bits are signs; the eighth makes the number of minus signs even. */
DEVICE uint32_t even_signs(uint32_t word)
{
	uint32_t signs = word & 127;
	return signs | (bit_count(signs) & 1) << 7;
}

/* Eight magnitudes of IQ2: 8, 25 or 43. */
DEVICE void iq2_values8(uint32_t point, uint32_t signs, int32_t *q)
{
	UNROLL
	for (int i = 0; i < 8; i++) {
		int32_t v = (int32_t)(0x2B1908u >> (point >> i * 2 & 3) * 8 & 255);
		q[i] = signs >> i & 1 ? -v : v;
	}
}

DEVICE void split_iq2_xxs(const uint8_t *p, int32_t j, eight *e)
{
	const uint8_t *group = p + 2 + j / 4 * 8;
	uint32_t word = bytes4(group + 4);
	e->scale = half_of(p) * (0.5f + (float)(word >> 28)) * 0.25f;
	iq2_values8(iq2xxs_grid[bytes1(group + j % 4)], even_signs(word >> j % 4 * 7), e->q);
}

/* Eight weights of IQ2_XS or IQ2_S. */
template <int format> DEVICE void split_iq2(const uint8_t *p, int32_t j, eight *e)
{
	constexpr int32_t S = format == WEIGHT_IQ2_XS ? 66 : 74;
	uint32_t s = bytes1(p + S + j / 4) >> j / 2 % 2 * 4 & 15;
	e->scale = half_of(p) * (0.5f + (float)s) * 0.25f;
	if constexpr (format == WEIGHT_IQ2_XS) {
		uint32_t v = bytes2(p + 2 + 2 * j);
		iq2_values8(iq2xs_grid[v & 511], even_signs(v >> 9), e->q);
	} else {
		uint32_t upper = bytes1(p + 66 + j / 4) >> j % 4 * 2 & 3;
		iq2_values8(iq2s_grid[bytes1(p + 2 + j) | upper << 8], bytes1(p + 34 + j), e->q);
	}
}

/* Eight weights of IQ3_XXS or IQ3_S: two points of four magnitudes. */
template <int format> DEVICE void split_iq3(const uint8_t *p, int32_t j, eight *e)
{
	uint32_t at[2] = {bytes1(p + 2 + 2 * j), bytes1(p + 3 + 2 * j)}, codes, signs;
	if constexpr (format == WEIGHT_IQ3_XXS) {
		uint32_t word = bytes4(p + 66 + j / 4 * 4);
		e->scale = half_of(p) * (0.5f + (float)(word >> 28)) * 0.5f;
		signs = even_signs(word >> j % 4 * 7);
		codes = iq3xxs_grid[at[0]] | (uint32_t)iq3xxs_grid[at[1]] << 12;
	} else {
		uint32_t ninth = bytes1(p + 66 + j / 4) >> j % 4 * 2;
		uint32_t s = bytes1(p + 106 + j / 8) >> j / 4 % 2 * 4 & 15;
		e->scale = half_of(p) * (float)(2 * s + 1);
		signs = bytes1(p + 74 + j);
		codes = iq3s_grid[at[0] | (ninth & 1) << 8] |
			(uint32_t)iq3s_grid[at[1] | (ninth & 2) << 7] << 12;
	}
	UNROLL
	for (int i = 0; i < 8; i++) {
		int32_t c = (int32_t)(codes >> i * 3 & 7);
		int32_t v = format == WEIGHT_IQ3_S ? 2 * c + 1 : 8 * c + (c == 7 ? 6 : 4);
		e->q[i] = signs >> i & 1 ? -v : v;
	}
}

/* The d of IQ1_M: four bits in each two bytes of its scales. */
DEVICE float iq1_m_scale(uint32_t first, uint32_t second)
{
	return f16_to_f32((uint16_t)((first >> 12 & 15) | (first >> 28) << 4 |
				     (second >> 12 & 15) << 8 | (second >> 28) << 12));
}

/* IQ1_S and IQ1_M, in eighths: a weight is a number of the grid's point plus or
 * minus an eighth. */
template <int format> DEVICE void split_iq1(const uint8_t *p, int32_t j, eight *e)
{
	uint32_t index, s, is_less;
	float d;
	if constexpr (format == WEIGHT_IQ1_S) {
		uint32_t v = bytes2(p + 34 + j / 4 * 2);
		d = half_of(p);
		index = bytes1(p + 2 + j) | (v >> j % 4 * 3 & 7) << 8;
		s = v >> 12 & 7;
		is_less = v >> 15;
	} else {
		uint32_t upper = bytes1(p + 32 + j / 2) >> j % 2 * 4;
		d = iq1_m_scale(bytes4(p + 48), bytes4(p + 52));
		index = bytes1(p + j) | (upper & 7) << 8;
		s = bytes2(p + 48 + j / 8 * 2) >> j / 2 % 4 * 3 & 7;
		is_less = upper >> 3 & 1;
	}
	e->scale = d * (float)(2 * s + 1) * 0.125f;
	UNROLL
	for (int i = 0; i < 8; i++)
		e->q[i] = (int32_t)(8 * (iq1_grid[index] >> i * 2 & 3)) -
			  (is_less ? 9 : 7);
}
