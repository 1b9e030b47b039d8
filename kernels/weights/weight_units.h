/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as halves, sixteen at a time, for all formats but f32 and int4. The fast
 * kernels of those formats share this (linear_blocks.h, moe_rows.hip,
 * tile_gemm_stage.h). This file finds the weights, unit_load.h loads them, and unit_take.h
 * converts them to halves.
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

/* Of a tile, where all lanes of a wave share the addresses of unit_row: bytes from there to a
 * lane's row, to its 16 bytes of numbers, to its byte, and to its scales. A load adds both, and
 * the scalar unit moves the shared part. */
struct unit_beside {
	uint32_t row, piece, byte, scales;
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
template <int format> DEVICE constexpr int32_t unit_at(int32_t chunk, int32_t u)
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

/* Where sixteen weights are: unit `unit` of chunk `chunk` + `more`. Two lanes of a tile may have
 * neighbouring chunks, the first even: they share `chunk`, and `more` is 0 or 1. Else it is 0. */
struct unit_spot {
	int32_t chunk, more, unit;
};

/* The spot of element k0 + 16 i, where k0 is a multiple of 32 and i is 0 or 1. */
template <int format> DEVICE unit_spot unit_find_beside(int32_t k0, int32_t i)
{
	unit_spot at = {};
	at.chunk = unit_find<format>(k0, &at.unit);
	if constexpr (unit_at<format>(1, 0) == 16)
		at.more = i;
	else
		at.unit += i;
	return at;
}
