/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by dialect_amd.h and dialect_cpu.h, which imitates gfx11's tiles: sums over rows
 * of tiles, and copies to LDS through registers.
 */
#pragma once
#include "kernels/device/tile_place.h"

DEVICE void tile_round_f16(tile_c *c)
{
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		c->v[i] = f16_to_f32(f32_to_f16(c->v[i]));
}

DEVICE void tile_row_totals(const tile_c &c, float *out, int site = __builtin_LINE())
{
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		float x = c.v[i];
		x += wave_xor<8>(x, site);
		x += wave_xor<1>(x, site);
		x += wave_xor<4>(x, site);
		out[i] = x + wave_xor<2>(x, site);
	}
}

enum { TILE_SIDE = 1 };
template <int M> DEVICE uint32_t keep(uint32_t x) { return x; }
template <int PIECES> DEVICE uint32_t tile_lane_a() { return 0; }
template <int PIECES> DEVICE uint32_t tile_lane_b() { return 0; }

template <int format, int PIECES>
DEVICE tile_a<format> tile_load_a_placed(const uint16_t *p, int32_t first, int32_t piece, int = 0)
{
	p += first;
	return {dialect_tile_row<format>(p + tile_place<PIECES>(tile_column(0), piece),
					 p + tile_place<PIECES>(tile_column(0), piece + 1))};
}

template <int format, int PIECES>
DEVICE tile_b<format> tile_load_b_placed(const uint16_t *p, int32_t first, int32_t piece, int = 0)
{
	p += first;
	return {dialect_tile_row<format>(p + tile_place<PIECES>(tile_column(0), piece),
					 p + tile_place<PIECES>(tile_column(0), piece + 1))};
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

#ifdef DIALECT_TRIES_COPIES
#include "kernels/device/dialect_cpu_copies.h"
#else
enum { COPY_LANDS = 1 };
template <int N> struct copy_ahead {
	u32x4 v[N];
};

template <int N>
DEVICE void copy_ask(copy_ahead<N> *c, int i, uint16_t *, const uint16_t *from, bool)
{
	c->v[i] = load_global<u32x4>(from);
}

/* Replaces a missing piece by 0. Doing so earlier would wait for the load. */
template <int N> DEVICE u32x4 copy_piece(const copy_ahead<N> &c, int i, bool is_there)
{
	u32x4 out = c.v[i];
	UNROLL
	for (int w = 0; w < 4; w++)
		out[w] = is_there ? out[w] : 0;
	return out;
}

template <int N>
DEVICE void copy_land(copy_ahead<N> *c, int i, uint16_t *to, bool is_there)
{
	*(u32x4 *)to = copy_piece(*c, i, is_there);
}

DEVICE void copy_wait() {}
DEVICE void copy_close() {}
template <int> DEVICE void copy_wait_but()
{
}
#endif

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

#ifndef DIALECT_TRIES_COPIES
DEVICE score_value score_load_value(const uint16_t *p, int32_t stride)
{
	return tile_load_a<TILE_F16>(p, stride);
}
#endif

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
