/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded units (weight_units.h) of the formats that have a grid: to halves with a scale. The
 * grid is a table in LDS.
 */
#pragma once
#include "kernels/weights/unit_load.h"

/* Four bytes minus n, as halves in two registers: 0x6400 | b is the half 1024 + b. Both
 * halves of `minus` are 1024 + n. */
DEVICE void unit_halves4(uint32_t bytes, uint32_t minus, uint32_t *out)
{
	out[0] = sub2_f16(permute_bytes<0x4140>(bytes, 0x64), minus);
	out[1] = sub2_f16(permute_bytes<0x4342>(bytes, 0x64), minus);
}

/* Spread four pairs of bits: pair i goes to the low bits of byte i. */
DEVICE uint32_t unit_crumbs4(uint32_t x)
{
	return (x | x << 6 | x << 12 | x << 18) & 0x03030303u;
}

/* Size of a format's lookup table in LDS, in 16-byte pieces. IQ2_XXS has its 256 points
 * as eight halves each, IQ3_XXS its 256 as four halves each, IQ3_S its 512 as four bytes
 * each. The others have codes as in the grid's header, two bytes each. The host's macro
 * HIP_UNIT_TABLE_BYTES says the same. (IQ3_S as halves would take half a wave of a SIMD from
 * its narrow tiles.) */
constexpr int unit_table(int format)
{
	switch (format) {
	case WEIGHT_IQ1_S: case WEIGHT_IQ1_M: case WEIGHT_IQ2_XXS: return 256;
	case WEIGHT_IQ2_S: case WEIGHT_IQ3_XXS: case WEIGHT_IQ3_S: return 128;
	case WEIGHT_IQ2_XS: return 64;
	default: return 0;
	}
}

/* Codes 8 i .. 8 i + 7 of a format's grid. It is one load of 16 bytes, because from four words
 * clang 19 makes a load of all and another of the first. */
template <int format> DEVICE u32x4 unit_grid_piece(int32_t i)
{
	const unsigned short *grid = iq2xs_grid;
	if constexpr (format == WEIGHT_IQ1_S || format == WEIGHT_IQ1_M)
		grid = iq1_grid;
	else if constexpr (format == WEIGHT_IQ2_S)
		grid = iq2s_grid;
	return ((const u32x4 *)grid)[i];
}

DEVICE u32x4 unit_table_point(int32_t i)
{
	u32x4 eight;
	UNROLL
	for (int j = 0; j < 2; j++) {
		uint32_t pair[2];
		uint32_t crumbs = unit_crumbs4(iq2xxs_grid[i] >> j * 8 & 255);
		unit_halves4(lookup_bytes(crumbs, 0x002B1908u, 0), 0x64006400u, pair);
		eight[j * 2] = pair[0];
		eight[j * 2 + 1] = pair[1];
	}
	return eight;
}

/* The four magnitudes of a point of IQ3, whose codes have three bits each, as bytes. */
template <int format> DEVICE uint32_t unit_iq3_bytes(uint32_t codes)
{
	constexpr bool IS_S = format == WEIGHT_IQ3_S;
	uint32_t at = (codes & 7) | (codes << 5 & 0x700u) | (codes << 10 & 0x70000u) |
		      (codes << 15 & 0x7000000u);
	return lookup_bytes(at, IS_S ? 0x07050301u : 0x1C140C04u,
			    IS_S ? 0x0F0D0B09u : 0x3E342C24u);
}

/* Piece i of IQ3's table. */
template <int format> DEVICE u32x4 unit_iq3_piece(int32_t i)
{
	u32x4 out;
	UNROLL
	for (int j = 0; j < 4; j++) {
		if constexpr (format == WEIGHT_IQ3_S) {
			out[j] = unit_iq3_bytes<format>(iq3s_grid[4 * i + j]);
		} else if (j < 2) {
			uint32_t pair[2];
			unit_halves4(unit_iq3_bytes<format>(iq3xxs_grid[2 * i + j]),
				     0x64006400u, pair);
			out[j * 2] = pair[0];
			out[j * 2 + 1] = pair[1];
		}
	}
	return out;
}

/* Fill the table, by all n_threads. A barrier must follow. */
template <int format> DEVICE void unit_make_table(u32x4 *table, int32_t n_threads)
{
	if constexpr (unit_table(format) == 0)
		return;
	for (int32_t i = (int32_t)thread_index(); i < unit_table(format); i += n_threads) {
		if constexpr (format == WEIGHT_IQ2_XXS)
			table[i] = unit_table_point(i);
		else if constexpr (format == WEIGHT_IQ3_XXS || format == WEIGHT_IQ3_S)
			table[i] = unit_iq3_piece<format>(i);
		else
			table[i] = unit_grid_piece<format>(i);
	}
}

/* Eight halves of `point` with the signs in `signs`. */
DEVICE u32x4 unit_signed(u32x4 point, uint32_t signs)
{
	signs |= signs << 15; /* now pair p has its signs in bits 2p and 2p + 16 */
	UNROLL
	for (int p = 0; p < 4; p++)
		point[p] |= signs << (15 - 2 * p) & 0x80008000u;
	return point;
}

DEVICE u32x4 unit_halves8(const uint32_t *bytes, uint32_t minus)
{
	u32x4 out;
	UNROLL
	for (int i = 0; i < 2; i++) {
		uint32_t pair[2];
		unit_halves4(bytes[i], minus, pair);
		out[i * 2] = pair[0];
		out[i * 2 + 1] = pair[1];
	}
	return out;
}

/* Eight weights of IQ2: their point's codes, two bits each. */
DEVICE u32x4 unit_iq2_eight(uint32_t codes, uint32_t signs)
{
	uint32_t v[2];
	UNROLL
	for (int i = 0; i < 2; i++)
		v[i] = lookup_bytes(unit_crumbs4(codes >> i * 8 & 255), 0x002B1908u, 0);
	return unit_signed(unit_halves8(v, 0x64006400u), signs);
}

/* Eight weights of IQ3: two points of the table. */
template <int format>
DEVICE u32x4 unit_iq3_eight(const u32x4 *table, uint32_t first, uint32_t second,
			    uint32_t signs)
{
	u32x4 out;
	if constexpr (format == WEIGHT_IQ3_S) {
		const uint32_t *points = (const uint32_t *)table;
		uint32_t bytes[2] = {points[first], points[second]};
		out = unit_halves8(bytes, 0x64006400u);
	} else {
		const u32x2 *points = (const u32x2 *)table;
		u32x2 a = points[first], b = points[second];
		UNROLL
		for (int i = 0; i < 2; i++) {
			out[i] = a[i];
			out[2 + i] = b[i];
		}
	}
	return unit_signed(out, signs);
}

/* Eight weights of IQ1, in eighths. */
DEVICE u32x4 unit_iq1_eight(uint32_t codes, uint32_t is_less)
{
	uint32_t v[2];
	UNROLL
	for (int i = 0; i < 2; i++)
		v[i] = unit_crumbs4(codes >> i * 8 & 255) << 3;
	return unit_halves8(v, (0x6407u + 2 * is_less) * 0x10001u);
}

/* Byte `at` of word `word`. After unrolling `at` is a constant; `word` is not. */
DEVICE uint32_t unit_byte(const u32x4 &q, int32_t word, int32_t at)
{
	uint32_t w = word == 0 ? q[0] : word == 1 ? q[1] : word == 2 ? q[2] : q[3];
	return w >> at * 8 & 255;
}

/* Sixteen weights of the formats with a grid but IQ2_XXS, and their scale. */
template <int format>
DEVICE void unit_take_grid(const unit_raw &r, int32_t c, int32_t u, const u32x4 *table,
			   u32x4 *h, float *scale)
{
	const unsigned short *grid = (const unsigned short *)table;
	float d = f16_to_f32((uint16_t)r.head[0]);
	if constexpr (format == WEIGHT_IQ2_XS || format == WEIGHT_IQ2_S) {
		constexpr int S = format == WEIGHT_IQ2_S ? 16 : 0;
		*scale = d * (0.5f + (float)(r.head[1] >> (S + u * 4) & 15)) * 0.25f;
	} else if constexpr (format == WEIGHT_IQ3_XXS) {
		uint32_t word = u < 2 ? r.head[1] : r.head[2];
		*scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
	} else if constexpr (format == WEIGHT_IQ3_S) {
		*scale = d * (float)(2 * (r.head[1] >> (16 + u / 2 * 4) & 15) + 1);
	} else if constexpr (format == WEIGHT_IQ1_S) {
		uint32_t s = r.head[1] >> (u / 2 * 16 + 12) & 7;
		*scale = d * (float)(2 * s + 1) * 0.125f;
	} else {
		uint32_t s = (c < 2 ? r.head[2] : r.head[3]) >> (c % 2 * 16 + u * 3) & 7;
		*scale = iq1_m_scale(r.head[2], r.head[3]) * (float)(2 * s + 1) * 0.125f;
	}
	UNROLL
	for (int i = 0; i < 2; i++) {
		int32_t at = u * 2 + i; /* eighth of the chunk */
		if constexpr (format == WEIGHT_IQ2_XS) {
			uint32_t v = unit_byte(r.q, u, 2 * i) | unit_byte(r.q, u, 2 * i + 1) << 8;
			h[i] = unit_iq2_eight(grid[v & 511], even_signs(v >> 9));
		} else if constexpr (format == WEIGHT_IQ2_S) {
			uint32_t index = unit_byte(r.q, u / 2, u % 2 * 2 + i);
			index |= (r.head[1] >> at * 2 & 3) << 8;
			h[i] = unit_iq2_eight(grid[index],
					      unit_byte(r.q, 2 + u / 2, u % 2 * 2 + i));
		} else if constexpr (format == WEIGHT_IQ3_XXS) {
			uint32_t word = u < 2 ? r.head[1] : r.head[2];
			h[i] = unit_iq3_eight<format>(table, unit_byte(r.q, u, 2 * i),
					      unit_byte(r.q, u, 2 * i + 1),
					      even_signs(word >> (u % 2 * 2 + i) * 7));
		} else if constexpr (format == WEIGHT_IQ3_S) {
			uint32_t ninth = r.head[1] >> at * 2;
			uint32_t signs = u < 2 ? r.head[2] : r.head[3];
			h[i] = unit_iq3_eight<format>(
				table, unit_byte(r.q, u, 2 * i) | (ninth & 1) << 8,
				unit_byte(r.q, u, 2 * i + 1) | (ninth & 2) << 7,
				signs >> (u % 2 * 2 + i) * 8 & 255);
		} else {
			uint32_t index = unit_byte(r.q, u / 2, u % 2 * 2 + i), upper;
			if constexpr (format == WEIGHT_IQ1_S) {
				uint32_t half = r.head[1] >> u / 2 * 16;
				upper = half >> (u % 2 * 2 + i) * 3 & 7;
				upper |= half >> 12 & 8;
			} else {
				upper = r.head[1] >> at * 4;
			}
			h[i] = unit_iq1_eight(grid[index | (upper & 7) << 8], upper >> 3 & 1);
		}
	}
}

/* Sixteen weights of IQ2_XXS: two points. Each has seven stored signs; an eighth makes
 * the number of minus signs even. */
DEVICE void unit_take_iq2_xxs(const unit_raw &r, int32_t u, const u32x4 *table, u32x4 *h,
			      float *scale)
{
	bool is_second = u >= 2;
	uint32_t points = is_second ? r.q[2] : r.q[0], word = is_second ? r.q[3] : r.q[1];
	*scale = f16_to_f32((uint16_t)r.head[0]) * (0.5f + (float)(word >> 28)) * 0.25f;
	UNROLL
	for (int i = 0; i < 2; i++) {
		int32_t at = u % 2 * 2 + i;
		h[i] = unit_signed(table[points >> at * 8 & 255], even_signs(word >> at * 7));
	}
}
