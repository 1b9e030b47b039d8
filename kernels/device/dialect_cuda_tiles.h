/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix tiles by ldmatrix and mma.sync: a part of dialect_cuda.h, which tells their
 * layout.
 */
#pragma once
#include "kernels/device/tile_place.h"

struct dialect_tile {
	uint32_t v[4]; /* each word: a lane's part of an 8x8 matrix of halves */
};
template <int format> struct tile_a {
	dialect_tile t;
};
template <int format> struct tile_b {
	dialect_tile t;
};
struct tile_c {
	f32x8 v; /* 0..3: columns 0..7; 4..7: columns 8..15 */
};
enum { TILE_ROWS = 2, TILE_LINES_B = 0, TILE_STEP = 64, TILE_SIDE = 2 };

DEVICE int32_t tile_row(int32_t i)
{
	return (int32_t)(threadIdx.x % 32 / 4) + i / 2 % 2 * 8;
}

DEVICE int32_t tile_column(int32_t i)
{
	return i / 4 * 8 + (int32_t)(threadIdx.x % 4) * 2 + i % 2;
}

DEVICE void tile_pin(tile_c *) {}
DEVICE int32_t tile_slot(int32_t i) { return i / 2 % 2; }

/* Load four 8x8 matrices; lanes 8m..8m+7 pass the addresses of the rows of matrix m. */
template <bool is_transposed> DEVICE dialect_tile dialect_ldmatrix_at(uint32_t at)
{
	dialect_tile t;
	if constexpr (is_transposed)
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
			     "{%0,%1,%2,%3}, [%4];"
			     : "=r"(t.v[0]), "=r"(t.v[1]), "=r"(t.v[2]), "=r"(t.v[3])
			     : "r"(at) : "memory");
	else
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
			     "{%0,%1,%2,%3}, [%4];"
			     : "=r"(t.v[0]), "=r"(t.v[1]), "=r"(t.v[2]), "=r"(t.v[3])
			     : "r"(at) : "memory");
	return t;
}

template <bool is_transposed> DEVICE dialect_tile dialect_ldmatrix(const uint16_t *p)
{
	return dialect_ldmatrix_at<is_transposed>((uint32_t)__cvta_generic_to_shared(p));
}

/* Order of the matrices: rows 0-7, rows 8-15, then the same at k = 8. */
template <int format>
DEVICE tile_a<format> tile_load_a(const uint16_t *p, int32_t stride, int = 0)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	return {dialect_ldmatrix<false>(p + lane % 16 * stride + lane / 16 * 8)};
}

/* Order of the matrices: columns 0-7 at k = 0 and k = 8, then columns 8-15. */
template <int format>
DEVICE tile_b<format> tile_load_b(const uint16_t *p, int32_t stride, int = 0)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	return {dialect_ldmatrix<false>(p + (lane % 8 + lane / 16 * 8) * stride +
					lane / 8 % 2 * 8)};
}

/* The place of a lane's row and half of 16 elements, at piece 0. The piece is even, so it changes
 * other bits of the place than the half does. */
template <int PIECES> DEVICE uint32_t tile_lane_a()
{
	uint32_t lane = threadIdx.x % 32;
	return tile_place<PIECES>(lane % 16, lane / 16);
}

template <int PIECES> DEVICE uint32_t tile_lane_b()
{
	uint32_t lane = threadIdx.x % 32;
	return tile_place<PIECES>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

/* LDS begins at a multiple of 128 bytes (LDS), and so do 16 rows. */
DEVICE dialect_tile dialect_load_placed(const uint16_t *p, int32_t first, int32_t piece)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(p) ^ (uint32_t)piece * 16;
	return dialect_ldmatrix_at<false>(at + (uint32_t)first * 2);
}

template <int format, int PIECES>
DEVICE tile_a<format> tile_load_a_placed(const uint16_t *p, int32_t first, int32_t piece, int = 0)
{
	return {dialect_load_placed(p, first, piece)};
}

template <int format, int PIECES>
DEVICE tile_b<format> tile_load_b_placed(const uint16_t *p, int32_t first, int32_t piece, int = 0)
{
	return {dialect_load_placed(p, first, piece)};
}

template <int format>
DEVICE tile_b<format> tile_load_b_rows(const uint16_t *p, int32_t stride, int = 0)
{
	int32_t lane = (int32_t)(threadIdx.x % 32);
	return {dialect_ldmatrix<true>(p + lane % 16 * stride + lane / 16 * 8)};
}

#define DIALECT_MMA(type, c, i, a, b0, b1) \
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 " \
		     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
		     : "+f"(c.v[i]), "+f"(c.v[i + 1]), "+f"(c.v[i + 2]), \
		       "+f"(c.v[i + 3]) \
		     : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), \
		       "r"(b1))

template <int format>
DEVICE tile_c tile_mma(tile_a<format> a, tile_b<format> b, tile_c c, int = 0)
{
	if constexpr (format == TILE_F16) {
		DIALECT_MMA("f16", c.v, 0, a.t, b.t.v[0], b.t.v[1]);
		DIALECT_MMA("f16", c.v, 4, a.t, b.t.v[2], b.t.v[3]);
	} else {
		DIALECT_MMA("bf16", c.v, 0, a.t, b.t.v[0], b.t.v[1]);
		DIALECT_MMA("bf16", c.v, 4, a.t, b.t.v[2], b.t.v[3]);
	}
	return c;
}

/* A zero as an operand takes no register, so no sums must be cleared first. */
#define DIALECT_MMA_NEW(type, c, i, a, b0, b1) \
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 " \
		     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};" \
		     : "=f"(c.v[i]), "=f"(c.v[i + 1]), "=f"(c.v[i + 2]), \
		       "=f"(c.v[i + 3]) \
		     : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), \
		       "r"(b1), "f"(0.0f))

template <int format> DEVICE tile_c tile_product(tile_a<format> a, tile_b<format> b, int = 0)
{
	tile_c c;
	if constexpr (format == TILE_F16) {
		DIALECT_MMA_NEW("f16", c.v, 0, a.t, b.t.v[0], b.t.v[1]);
		DIALECT_MMA_NEW("f16", c.v, 4, a.t, b.t.v[2], b.t.v[3]);
	} else {
		DIALECT_MMA_NEW("bf16", c.v, 0, a.t, b.t.v[0], b.t.v[1]);
		DIALECT_MMA_NEW("bf16", c.v, 4, a.t, b.t.v[2], b.t.v[3]);
	}
	return c;
}
#undef DIALECT_MMA_NEW

#include "kernels/device/dialect_cuda_quad.h"
#undef DIALECT_MMA

/* C has the same layout as A, so only rounding is needed. */
template <int format> DEVICE tile_a<format> tile_a_of_c(tile_c c, uint16_t *, int = 0)
{
	tile_a<format> a;
	for (int i = 0; i < 4; i++) {
		float lo = c.v[i * 2], hi = c.v[i * 2 + 1];
		if constexpr (format == TILE_F16)
			a.t.v[i] = f32_to_f16(lo) | (uint32_t)f32_to_f16(hi) << 16;
		else
			a.t.v[i] = f32_to_bf16(lo) | (uint32_t)f32_to_bf16(hi) << 16;
	}
	return a;
}
