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
