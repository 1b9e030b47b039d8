/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as halves, sixteen at a time, for all formats but f32 and int4. The fast
 * kernels of those formats share this (linear_blocks.h, moe_rows.hip,
 * tile_gemm_stage.h). This file finds and loads the weights; unit_take.h converts them to
 * halves.
 *
 *   unit    sixteen weights, neighbours in K, with one scale and one minimum:
 *           weight = half * scale - minimum. The half is exact (integers, e4m3, e2m1)
 *   chunk   the units whose numbers share 16 bytes of the row; a lane loads it at once.
 *           Low and high nibbles are units 16, 32 or 64 apart in K. The four 2-bit
 *           integers in a byte of Q2_K, Q3_K and TQ2_0 are 32 apart. See unit_at
 *
 * A chunk's 16 bytes are one load, non-temporal at few tokens. Rows of q are 16-byte
 * aligned. So are the chunks of formats with separate scales, of Q4_K (blocks of 144 bytes)
 * and of Q5_K (176). Other blocks have 18 to 210 bytes, an even number, so their 16 bytes
 * begin at any even address. gfx11 loads these with the same single instruction (load_even,
 * dialect.h). Neighbouring lanes share cache lines, so each byte still comes from memory
 * once. Scales and minima are small cached loads, because all lanes of a block read the
 * same ones.
 *
 * src/model/formats/quant_blocks.c describes the block formats,
 * src/model/formats/blocks.h the others. K is whole chunks (UNIT_CHUNK).
 */
#pragma once
#include "kernels/weights/dequant.h"

constexpr bool unit_is_small(int format) /* formats of e2m1 */
{
	return format == WEIGHT_NVFP4 || format == WEIGHT_MXFP4;
}

/* Units in a chunk: one for 8 bits and more, two for nibbles, four for 2-bit integers.
 * Further bits of a weight may lie outside the chunk. */
constexpr int unit_count(int format)
{
	int bits = format_rows[format].bits;
	return bits >= 8 ? 1 : bits >= 4 ? 2 : 4;
}

constexpr int unit_chunk(int format)
{
	return unit_count(format) * 16;
}

/* True if sixteen weights of a block format share a scale. */
constexpr bool unit_scales_16(int format)
{
	return format == WEIGHT_Q2_K || format == WEIGHT_Q3_K || format == WEIGHT_Q6_K ||
	       format == WEIGHT_IQ1_M || format == WEIGHT_IQ2_XS || format == WEIGHT_IQ2_S;
}

/* Formats with a grid. */
constexpr bool unit_is_grid(int format)
{
	return format == WEIGHT_IQ1_S || format == WEIGHT_IQ1_M || format == WEIGHT_IQ2_XXS ||
	       format == WEIGHT_IQ2_XS || format == WEIGHT_IQ2_S || format == WEIGHT_IQ3_XXS ||
	       format == WEIGHT_IQ3_S;
}

constexpr bool unit_has_min(int format)
{
	return format_rows[format].has_min;
}

/* A lane's row, and below the properties that all rows share. */
struct unit_row {
	const uint8_t *q;
	const char *scales;    /* of the row's first group */
	/* int8 zero points: group g's is the byte at bit zero_shift of zeros[g *
	 * zero_step]. zero_mask 0: there are none, and the value read is ignored. */
	const uint32_t *zeros;
	uint32_t zero_shift, zero_mask;
	int32_t zero_step;
};

struct unit_weight {
	int32_t group_shift; /* int8, fp8: log2(group), or 31 for one group a row */
	int32_t scale_format;
	const u32x4 *table; /* from unit_make_table; NULL: the format has none */
};

DEVICE int32_t unit_scale_bytes(int32_t scale_format)
{
	return scale_format == SCALE_F32 ? 4 : 2;
}

/* Row n of w, or w's last row if that is past the end. groups: of a row; 1 for one scale
 * a row. */
template <int format>
DEVICE unit_row unit_row_at(const weight_view &w, int32_t n, int32_t groups)
{
	size_t row = (size_t)(n < w.n ? n : w.n - 1);
	unit_row out = {};
	out.q = (const uint8_t *)w.q + row * (size_t)w.pitch;
	if constexpr (is_block(format) || format < WEIGHT_INT4)
		return out;
	size_t at = row / (size_t)w.group_n * (size_t)groups;
	size_t size = unit_is_small(format) ? 1 : unit_scale_bytes(w.scale_format);
	out.scales = (const char *)w.scales + at * size;
	if constexpr (format == WEIGHT_INT8) {
		bool has_zeros = w.zero_points;
		const uint32_t *zeros = (const uint32_t *)w.q;
		if (has_zeros)
			zeros = w.zero_points + row / 4 * (size_t)groups;
		out.zeros = zeros;
		out.zero_step = has_zeros;
		out.zero_mask = has_zeros ? 255 : 0;
		out.zero_shift = (uint32_t)row % 4 * 8;
	}
	return out;
}

/* Groups in a row of k weights, as unit_row_at needs them. */
DEVICE int32_t unit_groups(int32_t k, int32_t group)
{
	return group < k ? (k + group - 1) / group : 1;
}

/* First element in K of unit u of a chunk. */
template <int format> DEVICE int32_t unit_at(int32_t chunk, int32_t u)
{
	constexpr int N = unit_count(format);
	if constexpr (format == WEIGHT_Q4_K || format == WEIGHT_Q5_K)
		return chunk / 2 * 64 + chunk % 2 * 16 + u * 32;
	else if constexpr (format == WEIGHT_Q6_K)
		return chunk / 4 * 128 + chunk % 4 * 16 + u * 64;
	else if constexpr (format == WEIGHT_Q2_K || format == WEIGHT_Q3_K ||
			   format == WEIGHT_TQ2_0)
		return chunk / 2 * 128 + chunk % 2 * 16 + u * 32;
	else
		return (chunk * N + u) * 16;
}

/* The chunk and unit (*u) that begin at element i, a multiple of 16. */
template <int format> DEVICE int32_t unit_find(int32_t i, int32_t *u)
{
	constexpr int N = unit_count(format);
	if constexpr (format == WEIGHT_Q4_K || format == WEIGHT_Q5_K) {
		*u = i / 32 % 2;
		return i / 64 * 2 + i / 16 % 2;
	} else if constexpr (format == WEIGHT_Q6_K) {
		*u = i / 64 % 2;
		return i / 128 * 4 + i / 16 % 4;
	} else if constexpr (format == WEIGHT_Q2_K || format == WEIGHT_Q3_K ||
			   format == WEIGHT_TQ2_0) {
		*u = i / 32 % 4;
		return i / 128 * 2 + i / 16 % 2;
	} else {
		*u = i / 16 % N;
		return i / 16 / N;
	}
}

/* A loaded chunk: 16 bytes of numbers, their bits from elsewhere in the block, and scales
 * as stored. */
struct unit_raw {
	u32x4 q, more;
	uint32_t head[4];
};

/* Load a scale as its first two and its last two bytes, which are the same for two-byte
 * scales. This avoids a branch on the scale's type. */
DEVICE void unit_load_side_scale(const unit_row &row, const unit_weight &w, int32_t i,
				 unit_raw *r)
{
	int32_t size = unit_scale_bytes(w.scale_format);
	const char *at = row.scales + (i >> w.group_shift) * size;
	r->head[0] = load_global<uint16_t>(at);
	r->head[2] = load_global<uint16_t>(at + size - 2);
}

/* Load from a block of 32. In all such formats the sixteen bytes of nibbles come last. */
template <int format, bool IS_CACHED> DEVICE void unit_load32(const uint8_t *p, unit_raw *r)
{
	constexpr bool HAS_MIN = unit_has_min(format);
	constexpr bool HAS_FIFTH = format == WEIGHT_Q5_0 || format == WEIGHT_Q5_1;
	r->q = unit_load_even<IS_CACHED>(p + block_bytes(format) - 16);
	r->head[0] = HAS_MIN ? bytes4(p) : bytes2(p);
	if constexpr (HAS_FIFTH)
		r->head[1] = bytes4(p + (HAS_MIN ? 4 : 2));
}

/* Load chunk c, 64 weights, of a block that has a grid: indices, and the other bits and scales of
 * each format, in the order of quant_blocks.c. */
template <int format, bool IS_CACHED>
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
		r->q = unit_load_even<IS_CACHED>(p + 2 + 16 * c);
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

/* Load chunk c of a block of 256. */
template <int format, bool IS_CACHED>
DEVICE void unit_load256(const uint8_t *p, int32_t c, unit_raw *r)
{
	if constexpr (format == WEIGHT_Q4_K || format == WEIGHT_Q5_K) {
		constexpr int32_t Q = format == WEIGHT_Q4_K ? 16 : 48;
		u32x4 head = load_global<u32x4>(p);
		UNROLL
		for (int i = 0; i < 4; i++)
			r->head[i] = head[i];
		r->q = unit_load16<IS_CACHED>(p + Q + 16 * c);
		if constexpr (format == WEIGHT_Q5_K)
			r->more = load_global<u32x4>(p + 16 + c % 2 * 16);
	} else if constexpr (format == WEIGHT_Q6_K) {
		const uint8_t *s = p + 192 + c / 4 * 8 + c % 4;
		r->q = unit_load_even<IS_CACHED>(p + 16 * c);
		r->more = unit_load_even<IS_CACHED>(p + 128 + c / 4 * 32 + c % 2 * 16);
		r->head[0] = load_global<uint8_t>(s) | (uint32_t)load_global<uint8_t>(s + 4) << 8 |
			     bytes2(p + 208) << 16;
	} else if constexpr (format == WEIGHT_Q2_K) {
		r->q = unit_load_even<IS_CACHED>(p + 16 + 16 * c);
		r->head[0] = bytes4(p + c / 2 * 8);
		r->head[1] = bytes4(p + c / 2 * 8 + 4);
		r->head[2] = bytes4(p + 80);
	} else if constexpr (format == WEIGHT_Q3_K) {
		r->q = unit_load_even<IS_CACHED>(p + 32 + 16 * c);
		r->more = unit_load_even<IS_CACHED>(p + c % 2 * 16);
		UNROLL
		for (int i = 0; i < 3; i++)
			r->head[i] = bytes4(p + 96 + 4 * i);
		r->head[3] = bytes2(p + 108);
	} else if constexpr (format == WEIGHT_IQ4_XS) {
		r->q = unit_load_even<IS_CACHED>(p + 8 + 16 * c);
		r->head[0] = bytes4(p);
		r->head[1] = bytes4(p + 4);
	} else if constexpr (format == WEIGHT_TQ2_0) {
		r->q = unit_load_even<IS_CACHED>(p + 16 * c);
		r->head[0] = bytes2(p + 64);
	} else {
		unit_load_grid<format, IS_CACHED>(p, c, r);
	}
}

/* Start the loads of a chunk. */
template <int format, bool IS_CACHED = false>
DEVICE void unit_load(const unit_row &row, const unit_weight &w, int32_t chunk,
		      unit_raw *r)
{
	if constexpr (is_block(format)) {
		constexpr int32_t EACH = block_weights(format) / unit_chunk(format);
		const uint8_t *p = row.q + (size_t)(chunk / EACH) *
						   (size_t)block_bytes(format);
		if constexpr (block_weights(format) == 32)
			unit_load32<format, IS_CACHED>(p, r);
		else
			unit_load256<format, IS_CACHED>(p, chunk % EACH, r);
	} else if constexpr (format < WEIGHT_INT4) {
		r->q = unit_load16<IS_CACHED>(row.q + (size_t)chunk * 32);
		r->more = unit_load16<IS_CACHED>(row.q + (size_t)chunk * 32 + 16);
	} else {
		r->q = unit_load16<IS_CACHED>(row.q + (size_t)chunk * 16);
		if constexpr (format == WEIGHT_NVFP4)
			r->head[0] = load_global<uint16_t>(row.scales + 2 * chunk);
		else if constexpr (format == WEIGHT_MXFP4)
			r->head[0] = load_global<uint8_t>(row.scales + chunk);
		else
			unit_load_side_scale(row, w, chunk * 16, r);
		if constexpr (format == WEIGHT_INT8) {
			int32_t group = chunk * 16 >> w.group_shift;
			uint32_t word = load_global<uint32_t>(row.zeros + group * row.zero_step);
			r->head[1] = (word >> row.zero_shift & row.zero_mask) |
				     (128 & ~row.zero_mask);
		}
	}
}
