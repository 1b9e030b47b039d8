/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the elements of gfx11's matrix tiles lie (dialect.h says it in words), and what follows
 * from that. For dialect_amd.h, and for the dialects of stand-ins, which imitate those tiles.
 *
 * The dialect defines dialect_line, 16 elements, before it includes this file. Behind it, it
 * defines dialect_tile_row, tile_load_b_rows, tile_mma, tile_pin and score_weight_of.
 */
#pragma once
#include "kernels/device/tile_place.h"

template <int format> struct tile_a {
	dialect_line line;
};
template <int format> struct tile_b {
	dialect_line line;
};
struct tile_c {
	f32x8 v;
};

/* The line whose elements 0 to 7 are at `low`, and 8 to 15 at `high`. */
template <int format>
DEVICE dialect_line dialect_tile_row(const uint16_t *low, const uint16_t *high);
template <int format>
DEVICE tile_c tile_mma(tile_a<format> a, tile_b<format> b, tile_c c, int site = __builtin_LINE());

DEVICE int32_t tile_row(int32_t i) { return 2 * i + (int32_t)(thread_index() >> 4 & 1); }
DEVICE int32_t tile_column(int32_t) { return (int32_t)(thread_index() & 15); }

template <int format> DEVICE dialect_line dialect_tile_line(const uint16_t *p, int32_t stride)
{
	const uint16_t *line = p + tile_column(0) * stride;
	return dialect_tile_row<format>(line, line + 8);
}

template <int format>
DEVICE tile_a<format> tile_load_a(const uint16_t *p, int32_t stride, int = 0)
{
	return {dialect_tile_line<format>(p, stride)};
}

template <int format>
DEVICE tile_b<format> tile_load_b(const uint16_t *p, int32_t stride, int = 0)
{
	return {dialect_tile_line<format>(p, stride)};
}

DEVICE void tile_round_f16(tile_c *c)
{
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		c->v[i] = f16_to_f32(f32_to_f16(c->v[i]));
}

template <int format, int PIECES>
DEVICE dialect_line dialect_tile_placed(const uint16_t *p, int32_t piece)
{
	return dialect_tile_row<format>(p + tile_place<PIECES>(tile_column(0), piece),
					p + tile_place<PIECES>(tile_column(0), piece + 1));
}

template <int format, int PIECES>
DEVICE tile_a<format> tile_load_a_placed(const uint16_t *p, int32_t first, int32_t piece, int = 0)
{
	return {dialect_tile_placed<format, PIECES>(p + first, piece)};
}

template <int format, int PIECES>
DEVICE tile_b<format> tile_load_b_placed(const uint16_t *p, int32_t first, int32_t piece, int = 0)
{
	return {dialect_tile_placed<format, PIECES>(p + first, piece)};
}

template <int format>
DEVICE tile_c tile_product(tile_a<format> a, tile_b<format> b, int site = __builtin_LINE())
{
	tile_c zero;
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		zero.v[i] = 0;
	return tile_mma(a, b, zero, site);
}

/* Scores: keys by queries. A lane has one query, and eight of its 16 positions: 2i + lane / 16.
 * So a maximum over positions takes one exchange between lanes, not four for each of eight rows. */
typedef tile_b<TILE_F16> score_query, score_weight;
typedef tile_a<TILE_F16> score_key, score_value;
enum { SCORE_SLOTS = 1 };

DEVICE int32_t score_query_at(int32_t i) { return tile_column(i); }
DEVICE int32_t score_other_at(int32_t i) { return tile_row(i); }
DEVICE int32_t score_slot(int32_t) { return 0; }
DEVICE int32_t score_slot_query(int32_t) { return tile_column(0); }

DEVICE score_query score_load_query(const uint16_t *p, int32_t stride)
{
	return tile_load_b<TILE_F16>(p, stride);
}

DEVICE score_key score_load_key(const uint16_t *p, int32_t stride)
{
	return tile_load_a<TILE_F16>(p, stride);
}

DEVICE score_value score_load_value(const uint16_t *p, int32_t stride)
{
	return tile_load_a<TILE_F16>(p, stride);
}

DEVICE tile_c score_mma(score_query q, score_key k, tile_c c, int site = __builtin_LINE())
{
	return tile_mma(k, q, c, site);
}

DEVICE tile_c score_add(score_weight w, score_value v, tile_c c, int site = __builtin_LINE())
{
	return tile_mma(v, w, c, site);
}

DEVICE float score_max(float x, int site = __builtin_LINE())
{
	return max_f32(x, wave_xor<16>(x, site));
}

/* Positions that differ by 8 are four apart in a lane; by 1: in the other lane. */
DEVICE void score_totals(const tile_c &c, float *out, int site = __builtin_LINE())
{
	float x[4];
	UNROLL
	for (int i = 0; i < 4; i++) {
		x[i] = c.v[i] + c.v[i + 4];
		x[i] += wave_xor<16>(x[i], site);
	}
	*out = (x[0] + x[2]) + (x[1] + x[3]);
}
