/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts loaded units (weight_units.h) to halves with a scale and a minimum, and
 * multiplies them.
 */
#pragma once
#include "kernels/weights/unit_grids.h"

/* For each byte: 0xFF if its bit 3 is set, else 0. */
DEVICE uint32_t unit_mask_of_bit3(uint32_t bytes)
{
	uint32_t b = bytes & 0x08080808u;
	return (b << 5) - (b >> 3);
}

/* IQ4's values of four nibbles (dequant_blocks.h), with 128 added to make them bytes. */
DEVICE uint32_t unit_iq4_bytes(uint32_t nibbles)
{
	uint32_t at = nibbles & 0x07070707u, is_high = unit_mask_of_bit3(nibbles);
	uint32_t low = lookup_bytes(at, 0x3F2D1801u, 0x766A5D4Fu);
	uint32_t high = lookup_bytes(at, 0xA6998D81u, 0xF1D9C5B5u);
	return (low & ~is_high) | (high & is_high);
}

/* NF4's values of unit u as halves: their low bytes and their high bytes are looked up. */
DEVICE void unit_take_nf4(const unit_raw &r, int32_t u, u32x4 *h)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		uint32_t nibbles = r.q[i] >> u * 4 & 0x0F0F0F0Fu;
		uint32_t at = nibbles & 0x07070707u, is_high = unit_mask_of_bit3(nibbles);
		uint32_t low = (lookup_bytes(at, 0x52339200u, 0x00D4EA8Du) & ~is_high) |
			       (lookup_bytes(at, 0x68E02618u, 0x00C9800Du) & is_high);
		uint32_t high = (lookup_bytes(at, 0xB6B8B9BCu, 0x00ADB1B4u) & ~is_high) |
				(lookup_bytes(at, 0x3533312Du, 0x3C393837u) & is_high);
		h[i / 2][i % 2 * 2] = permute_bytes<0x5140>(low, high);
		h[i / 2][i % 2 * 2 + 1] = permute_bytes<0x7362>(low, high);
	}
}

/* Spread four bits: bit i goes to bit 0 of byte i. */
DEVICE uint32_t unit_spread4(uint32_t bits)
{
	return (bits & 15) * 0x00204081u & 0x01010101u;
}

/* The integers of unit u as bytes, four in each v. Returns the number to subtract from
 * each. */
template <int format>
DEVICE uint32_t unit_bytes32(const unit_raw &r, int32_t u, uint32_t *v)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		v[i] = r.q[i] >> u * 4 & 0x0F0F0F0Fu;
		if constexpr (format == WEIGHT_Q5_0 || format == WEIGHT_Q5_1)
			v[i] |= unit_spread4(r.head[1] >> (u * 16 + i * 4)) << 4;
		if constexpr (format == WEIGHT_IQ4_NL || format == WEIGHT_IQ4_XS)
			v[i] = unit_iq4_bytes(v[i]);
	}
	return format == WEIGHT_Q5_0 ? 16 : format == WEIGHT_Q4_1 || format == WEIGHT_Q5_1
						    ? 0 : 128;
}

/* Bits of each byte, moved from their place `from`, which may be below or above, to `to`. A
 * rotation takes one instruction, without a branch; `places` leaves out what else it brings. */
DEVICE uint32_t unit_move_bits(uint32_t bits, uint32_t from, uint32_t to, uint32_t places)
{
	uint32_t by = from - to;
	return (bits >> (by & 31) | bits << (-by & 31)) & places;
}

/* unit_bytes32 for chunk c of a block of 256. */
template <int format>
DEVICE uint32_t unit_bytes256(const unit_raw &r, uint32_t c, uint32_t u, uint32_t *v)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		if constexpr (format == WEIGHT_Q4_K || format == WEIGHT_Q5_K)
			v[i] = r.q[i] >> u * 4 & 0x0F0F0F0Fu;
		if constexpr (format == WEIGHT_Q5_K)
			v[i] |= unit_move_bits(r.more[i], c / 2 * 2 + u, 4, 0x10101010u);
		if constexpr (format == WEIGHT_Q6_K)
			v[i] = (r.q[i] >> u * 4 & 0x0F0F0F0Fu) |
			       unit_move_bits(r.more[i], c / 2 % 2 * 2 + u * 4, 4, 0x30303030u);
		if constexpr (format == WEIGHT_Q2_K || format == WEIGHT_Q3_K ||
			      format == WEIGHT_TQ2_0)
			v[i] = r.q[i] >> u * 2 & 0x03030303u;
		if constexpr (format == WEIGHT_Q3_K)
			v[i] |= unit_move_bits(r.more[i], c / 2 * 4 + u, 2, 0x04040404u);
	}
	return format == WEIGHT_Q6_K	? 32
	       : format == WEIGHT_Q3_K	? 4
	       : format == WEIGHT_TQ2_0 ? 1 : 0;
}

/* One of the numbers of Q4_K's and Q5_K's units, of six bits: is_min 0 is the scale, 1 the minimum.
 * As scales_k of dequant_blocks.h; the bytes are head[1..3]. sub: the unit's in its block. */
DEVICE float unit_six_bits(const unit_raw &r, uint32_t sub, uint32_t is_min)
{
	uint32_t at = sub % 4 * 8;
	uint32_t own = (is_min ? r.head[2] : r.head[1]) >> at;
	uint32_t both = r.head[3] >> (at + is_min * 4);
	/* masks avoid a branch */
	uint32_t first = sub < 4 ? 63 : 0, second = first ^ 63;
	return (float)((own & first) | (((both & 15) | (own >> 2 & 0x30)) & second));
}

/* Scale and minimum of unit u in chunk c + more of a block of 256. */
template <int format>
DEVICE void unit_scale256(const unit_raw &r, uint32_t c, uint32_t more, uint32_t u, float *scale,
			  float *min)
{
	float d = f16_to_f32((uint16_t)r.head[0]);
	if constexpr (format == WEIGHT_Q4_K || format == WEIGHT_Q5_K) {
		uint32_t sub = c / 2 * 2 + u;
		*scale = d * unit_six_bits(r, sub, 0);
		*min = f16_to_f32((uint16_t)(r.head[0] >> 16)) * unit_six_bits(r, sub, 1);
	} else if constexpr (format == WEIGHT_Q6_K) {
		uint32_t s = u ? r.head[1] : r.head[0];
		*scale = f16_to_f32((uint16_t)r.head[2]) * (float)signed8(s);
	} else if constexpr (format == WEIGHT_TQ2_0) {
		*scale = d;
	} else if constexpr (format == WEIGHT_Q2_K) {
		uint32_t at = c % 2 + more + 2 * u;
		uint32_t s = (u < 2 ? r.head[0] : r.head[1]) >> at % 4 * 8;
		*scale = f16_to_f32((uint16_t)r.head[2]) * (float)(s & 15);
		*min = f16_to_f32((uint16_t)(r.head[2] >> 16)) * (float)(s >> 4 & 15);
	} else if constexpr (format == WEIGHT_Q3_K) {
		/* as scale_q3_k of dequant_blocks.h for sub-block 8 (c / 2) + c % 2 + 2 u */
		uint32_t at = c % 2 + more + 2 * u;
		uint32_t low = (u < 2 ? r.head[0] : r.head[1]) >> at % 4 * 8;
		uint32_t high = r.head[2] >> at % 4 * 8;
		uint32_t s = (low >> c / 2 * 4 & 15) |
			     (high >> (c / 2 * 2 + u / 2) * 2 & 3) << 4;
		*scale = f16_to_f32((uint16_t)r.head[3]) * (float)((int32_t)s - 32);
	} else { /* IQ4_XS: chunk c is 32 weights */
		uint32_t s = (r.head[1] >> c * 4 & 15) |
			     (r.head[0] >> 16 >> 2 * c & 3) << 4;
		*scale = d * (float)((int32_t)s - 32);
	}
}

/* The eight e2m1 in each of two words, in the order 0 2 4 6 1 3 5 7. */
DEVICE void unit_take_small(const unit_raw &r, int32_t u, u32x4 *h)
{
	UNROLL
	for (int i = 0; i < 2; i++) {
		uint32_t word = u ? r.q[2 + i] : r.q[i];
		UNROLL
		for (int s = 0; s < 2; s++) {
			uint32_t pair[2];
			small_halves<WEIGHT_NVFP4>(word >> s * 4, pair);
			h[i][s * 2] = fma2_f16(pair[0], 0x74007400u, 0);
			h[i][s * 2 + 1] = fma2_f16(pair[1], 0x74007400u, 0);
		}
	}
}

DEVICE float unit_side_scale(const unit_raw &r, const unit_weight &w)
{
	float f = bits_cast<float>(r.head[0] | r.head[2] << 16);
	f = w.scale_format == SCALE_BF16 ? bf16_to_f32((uint16_t)r.head[0]) : f;
	return w.scale_format == SCALE_F16 ? f16_to_f32((uint16_t)r.head[0]) : f;
}

/* Convert a loaded unit. h: its weights, eight halves each (bf16: unchanged), in the order that
 * unit_order gives to inputs. */
template <int format>
DEVICE void unit_take(const unit_raw &r, const unit_weight &w, const unit_spot &spot, u32x4 *h,
		      float *scale, float *min)
{
	int32_t u = spot.unit;
	*min = 0;
	if constexpr (format < WEIGHT_INT4) {
		h[0] = r.q;
		h[1] = r.more;
		*scale = 1;
	} else if constexpr (unit_is_small(format)) {
		unit_take_small(r, u, h);
		*scale = format == WEIGHT_MXFP4 ? e8m0_to_f32((uint8_t)r.head[0])
						: e4m3_to_f32((uint8_t)(r.head[0] >> u * 8));
	} else if constexpr (format == WEIGHT_IQ2_XXS) {
		unit_take_iq2_xxs(r, u, w.table, h, scale);
	} else if constexpr (unit_is_grid(format)) {
		unit_take_grid<format>(r, spot.chunk % 4, u, w.table, h, scale);
	} else if constexpr (format == WEIGHT_NF4) {
		unit_take_nf4(r, u, h);
		*scale = f16_to_f32((uint16_t)r.head[0]);
	} else if constexpr (format == WEIGHT_FP8) {
		*scale = unit_side_scale(r, w);
		UNROLL
		for (int i = 0; i < 4; i++) {
			uint32_t pair[2];
			small_halves<format>(r.q[i], pair);
			h[i / 2][i % 2 * 2] = fma2_f16(pair[0], 0x5C005C00u, 0);
			h[i / 2][i % 2 * 2 + 1] = fma2_f16(pair[1], 0x5C005C00u, 0);
		}
	} else {
		uint32_t v[4], minus = 0;
		if constexpr (format == WEIGHT_INT8) {
			UNROLL
			for (int i = 0; i < 4; i++)
				v[i] = r.q[i];
			minus = r.head[1];
			*scale = unit_side_scale(r, w);
		} else if constexpr (block_weights(format) == 32) {
			minus = unit_bytes32<format>(r, u, v);
			*scale = f16_to_f32((uint16_t)r.head[0]);
			if constexpr (unit_has_min(format))
				*min = -f16_to_f32((uint16_t)(r.head[0] >> 16));
		} else {
			constexpr uint32_t EACH = 256 / unit_chunk(format);
			uint32_t c = (uint32_t)spot.chunk % EACH;
			if constexpr (format == WEIGHT_IQ4_XS)
				minus = unit_bytes32<format>(r, u, v);
			else
				minus = unit_bytes256<format>(r, c, (uint32_t)u, v);
			unit_scale256<format>(r, c, (uint32_t)spot.more, (uint32_t)u, scale, min);
		}
		minus = (0x6400u + minus) * 0x10001u;
		UNROLL
		for (int i = 0; i < 4; i++) {
			uint32_t pair[2];
			unit_halves4(v[i], minus, pair);
			h[i / 2][i % 2 * 2] = pair[0];
			h[i / 2][i % 2 * 2 + 1] = pair[1];
		}
	}
}

/* Where 32 weights have one scale and one minimum: the scale for is_min 0, the negated minimum for
 * 1. So two lanes have one each, in the same instructions. */
template <int format>
DEVICE float unit_scale_or_min(const unit_raw &r, const unit_spot &spot, uint32_t is_min)
{
	float d = f16_to_f32((uint16_t)(r.head[0] >> is_min * 16));
	if constexpr (block_weights(format) == 32)
		return d;
	float s = unit_six_bits(r, (uint32_t)spot.chunk % 8 / 2 * 2 + (uint32_t)spot.unit, is_min);
	return (is_min ? -d : d) * s;
}

/* Reorder eight inputs to the order of unit_take's weights. */
template <int format> DEVICE u32x4 unit_order(u32x4 v)
{
	if constexpr (unit_is_small(format)) {
		u32x4 out;
		out[0] = permute_bytes<0x5410>(v[0], v[1]);
		out[1] = permute_bytes<0x5410>(v[2], v[3]);
		out[2] = permute_bytes<0x7632>(v[0], v[1]);
		out[3] = permute_bytes<0x7632>(v[2], v[3]);
		return out;
	}
	return v;
}

/* sum + eight weights times eight inputs (f16). */
template <int format> DEVICE float unit_dot8(u32x4 h, u32x4 x, float sum)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		if constexpr (format == WEIGHT_BF16) {
			uint32_t v = x[i];
			sum = fma_f32(bits_cast<float>(h[i] << 16), f16_to_f32((uint16_t)v),
				      sum);
			sum = fma_f32(bits_cast<float>(h[i] & 0xFFFF0000u),
				      f16_to_f32((uint16_t)(v >> 16)), sum);
		} else {
			sum = dot2_f16(h[i], x[i], sum);
		}
	}
	return sum;
}
