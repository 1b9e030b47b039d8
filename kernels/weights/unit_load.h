/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads chunks of weights (weight_units.h).
 */
#pragma once
#include "kernels/weights/weight_units.h"

/* A loaded chunk: 16 bytes of numbers, their bits from elsewhere in the block, and scales
 * as stored. */
struct unit_raw {
	u32x4 q, more;
	uint32_t head[4];
};

/* Where a part of a lane's row is: at p, and in a tile those bytes beside it. */
DEVICE const uint8_t *unit_part(const void *p, unit_beside *beside, uint32_t unit_beside::*part)
{
	return beside ? address_beside(p, &(beside->*part)) : (const uint8_t *)p;
}

DEVICE const uint8_t *unit_piece(const void *p, unit_beside *beside)
{
	return unit_part(p, beside, &unit_beside::piece);
}

/* Load a scale as its first two and its last two bytes, which are the same for two-byte
 * scales. This avoids a branch on the scale's type. */
DEVICE void unit_load_side_scale(const unit_row &row, const unit_weight &w, int32_t i,
				 unit_beside *beside, unit_raw *r)
{
	int32_t size = unit_scale_bytes(w.scale_format);
	const char *at = row.scales + (i >> w.group_shift) * size;
	if (beside)
		at += beside->scales;
	r->head[0] = load_global<uint16_t>(at);
	r->head[2] = load_global<uint16_t>(at + size - 2);
}

/* Load from a block of 32. In all such formats the sixteen bytes of nibbles come last. */
template <int format, bool IS_TILE> DEVICE void unit_load32(const uint8_t *p, unit_raw *r)
{
	constexpr bool HAS_MIN = unit_has_min(format);
	constexpr bool HAS_FIFTH = format == WEIGHT_Q5_0 || format == WEIGHT_Q5_1;
	r->q = unit_load_even<IS_TILE>(p + block_bytes(format) - 16);
	r->head[0] = HAS_MIN ? bytes4(p) : bytes2(p);
	if constexpr (HAS_FIFTH)
		r->head[1] = bytes4(p + (HAS_MIN ? 4 : 2));
}

/* Load chunk c, 64 weights, of a block that has a grid: indices, and the other bits and scales of
 * each format, in the order of quant_blocks.c. */
template <int format, bool IS_TILE>
DEVICE void unit_load_grid(const uint8_t *p, int32_t c, unit_raw *r)
{
	r->head[0] = bytes2(p);
	if constexpr (format == WEIGHT_IQ1_S || format == WEIGHT_IQ1_M) {
		constexpr int32_t Q = format == WEIGHT_IQ1_S ? 2 : 0;
		r->q[0] = bytes4(p + Q + 8 * c);
		r->q[1] = bytes4(p + Q + 8 * c + 4);
		r->head[1] = bytes4(p + Q + 32 + 4 * c);
		if constexpr (format == WEIGHT_IQ1_M) {
			r->head[2] = bytes4(p + 48);
			r->head[3] = bytes4(p + 52);
		}
	} else if constexpr (format == WEIGHT_IQ2_S) {
		r->q[0] = bytes4(p + 2 + 8 * c);
		r->q[1] = bytes4(p + 2 + 8 * c + 4);
		r->q[2] = bytes4(p + 34 + 8 * c);
		r->q[3] = bytes4(p + 34 + 8 * c + 4);
		r->head[1] = bytes2(p + 66 + 2 * c) | bytes2(p + 74 + 2 * c) << 16;
	} else {
		r->q = unit_load_even<IS_TILE>(p + 2 + 16 * c);
		if constexpr (format == WEIGHT_IQ2_XS)
			r->head[1] = bytes2(p + 66 + 2 * c);
		if constexpr (format == WEIGHT_IQ3_XXS) {
			r->head[1] = bytes4(p + 66 + 8 * c);
			r->head[2] = bytes4(p + 66 + 8 * c + 4);
		}
		if constexpr (format == WEIGHT_IQ3_S) {
			r->head[1] = bytes2(p + 66 + 2 * c) | bytes1(p + 106 + c) << 16;
			r->head[2] = bytes4(p + 74 + 8 * c);
			r->head[3] = bytes4(p + 74 + 8 * c + 4);
		}
	}
}

/* Load chunk c of the block of 256 at p. A tile takes unit u alone, the others every unit. */
template <int format, bool IS_TILE>
DEVICE void unit_load256(const uint8_t *p, uint32_t c, uint32_t u, unit_beside *beside,
			 unit_raw *r)
{
	const uint8_t *block = unit_part(p, beside, &unit_beside::row);
	if constexpr (format == WEIGHT_Q4_K || format == WEIGHT_Q5_K) {
		constexpr int32_t Q = format == WEIGHT_Q4_K ? 16 : 48;
		u32x4 head = load_global<u32x4>(block);
		UNROLL
		for (int i = 0; i < 4; i++)
			r->head[i] = head[i];
		r->q = unit_load16<IS_TILE>(unit_piece(p + 16 * c, beside) + Q);
		if constexpr (format == WEIGHT_Q5_K)
			r->more = load_global<u32x4>(unit_piece(p + c % 2 * 16, beside) + 16);
	} else if constexpr (format == WEIGHT_Q6_K) {
		const uint8_t *s = p + c / 4 * 8 + c % 4 + (IS_TILE ? 4 * u : 0);
		s = unit_part(s, beside, &unit_beside::byte) + 192;
		r->q = unit_load_even<IS_TILE>(unit_piece(p + 16 * c, beside));
		r->more = unit_load_even<IS_TILE>(
			unit_piece(p + c / 4 * 32 + c % 2 * 16, beside) + 128);
		/* In registers of their own: what joins them would wait for the loads. */
		r->head[0] = load_global<uint8_t>(s);
		r->head[1] = IS_TILE ? r->head[0] : load_global<uint8_t>(s + 4);
		r->head[2] = bytes2(block + 208);
	} else if constexpr (format == WEIGHT_Q2_K) {
		const uint8_t *s = unit_part(p + c / 2 * 8, beside, &unit_beside::row);
		r->q = unit_load_even<IS_TILE>(unit_piece(p + 16 * c, beside) + 16);
		r->head[0] = bytes4(s);
		r->head[1] = bytes4(s + 4);
		r->head[2] = bytes4(block + 80);
	} else if constexpr (format == WEIGHT_Q3_K) {
		r->q = unit_load_even<IS_TILE>(unit_piece(p + 16 * c, beside) + 32);
		r->more = unit_load_even<IS_TILE>(unit_piece(p + c % 2 * 16, beside));
		UNROLL
		for (int i = 0; i < 3; i++)
			r->head[i] = bytes4(block + 96 + 4 * i);
		r->head[3] = bytes2(block + 108);
	} else if constexpr (format == WEIGHT_IQ4_XS) {
		const uint8_t *q = unit_part(p + 16 * c, beside, &unit_beside::row);
		r->q = unit_load_even<IS_TILE>(q + 8);
		r->head[0] = bytes4(block);
		r->head[1] = bytes4(block + 4);
	} else if constexpr (format == WEIGHT_TQ2_0) {
		r->q = unit_load_even<IS_TILE>(unit_piece(p + 16 * c, beside));
		r->head[0] = bytes2(block + 64);
	} else {
		unit_load_grid<format, IS_TILE>(block, c, r);
	}
}

/* Start the loads of a chunk. beside: of a tile's rows, else NULL. */
template <int format, bool IS_TILE = false>
DEVICE void unit_load(const unit_row &row, const unit_weight &w, const unit_spot &spot,
		      unit_raw *r, unit_beside *beside = NULL)
{
	int32_t chunk = spot.chunk;
	if constexpr (is_block(format)) {
		constexpr int32_t EACH = block_weights(format) / unit_chunk(format);
		const uint8_t *p = row.q + (size_t)(chunk / EACH) *
						   (size_t)block_bytes(format);
		if constexpr (block_weights(format) == 32)
			unit_load32<format, IS_TILE>(unit_part(p, beside, &unit_beside::row), r);
		else
			unit_load256<format, IS_TILE>(p, (uint32_t)chunk % EACH,
						      (uint32_t)spot.unit, beside, r);
	} else if constexpr (format < WEIGHT_INT4) {
		const uint8_t *p = unit_piece(row.q + (size_t)chunk * 32, beside);
		r->q = unit_load16<IS_TILE>(p);
		r->more = unit_load16<IS_TILE>(p + 16);
	} else {
		r->q = unit_load16<IS_TILE>(unit_piece(row.q + (size_t)chunk * 16, beside));
		if constexpr (format == WEIGHT_NVFP4)
			r->head[0] = load_global<uint16_t>(
				unit_part(row.scales + 2 * chunk, beside, &unit_beside::scales));
		else if constexpr (format == WEIGHT_MXFP4)
			r->head[0] = load_global<uint8_t>(
				unit_part(row.scales + chunk, beside, &unit_beside::scales));
		else
			unit_load_side_scale(row, w, (chunk + spot.more) * 16, beside, r);
		if constexpr (format == WEIGHT_INT8) {
			int32_t group = (chunk + spot.more) * 16 >> w.group_shift;
			uint32_t word = load_global<uint32_t>(row.zeros + group * row.zero_step);
			r->head[1] = (word >> row.zero_shift & row.zero_mask) |
				     (128 & ~row.zero_mask);
		}
	}
}
