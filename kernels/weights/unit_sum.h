/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a weight times a few tokens, by units (weight_units.h). linear_blocks.h and
 * moe_rows.hip use it.
 *
 * THRDS lanes share a row, and a lane has YTILE rows. A step is one chunk of each lane;
 * UNR steps are loaded before the first is used. The order of a sum depends on THRDS
 * alone.
 *
 * Inputs are in LDS in pieces of eight (16 bytes); piece p is at place unit_place(p).
 * Units of neighbouring lanes are 16 to 64 elements apart. LDS serves eight lanes at
 * once, and this placement puts their pieces in different banks.
 */
#pragma once
#include "kernels/weights/unit_take.h"

DEVICE int32_t unit_place(int32_t p)
{
	return p ^ (p >> 3 & 7);
}

/* Pieces of LDS for k inputs, rounded up to whole 64 elements. */
DEVICE int32_t unit_pieces(int32_t k)
{
	return (k + 63) / 64 * 8;
}

/* Copy x (K, f16) to LDS, by all n_threads. */
template <int format>
DEVICE void unit_stage(const uint16_t *x, int32_t k, int32_t n_threads, u32x4 *to)
{
	for (int32_t p = (int32_t)thread_index(); p < k / 8; p += n_threads)
		to[unit_place(p)] = unit_order<format>(((const u32x4 *)x)[p]);
}

/* sum[y][t] += the chunk's product of row y and token t. x: token 0; tokens are `pitch`
 * pieces apart. Tokens past n_tok repeat the last one. */
template <int M, int format, int YTILE>
DEVICE void unit_use(const unit_raw *raw, const unit_weight &w, int32_t chunk,
		     const u32x4 *x, int32_t pitch, int32_t n_tok, float (*sum)[M])
{
	UNROLL
	for (int u = 0; u < unit_count(format); u++) {
		u32x4 h[YTILE][2];
		float scale[YTILE], min[YTILE];
		UNROLL
		for (int y = 0; y < YTILE; y++)
			unit_take<format>(raw[y], w, {chunk, 0, u}, h[y], &scale[y],
					  &min[y]);
		int32_t p = unit_at<format>(chunk, u) / 8;
		UNROLL
		for (int t = 0; t < M; t++) {
			if constexpr (M > 2)
				schedule_barrier();
			const u32x4 *xt = x + (t < n_tok ? t : n_tok - 1) * pitch;
			u32x4 low = xt[unit_place(p)], high = xt[unit_place(p + 1)];
			float all = 0;
			if constexpr (unit_has_min(format)) {
				u32x4 ones;
				UNROLL
				for (int i = 0; i < 4; i++)
					ones[i] = 0x3C003C00u;
				all = unit_dot8<format>(ones, low, 0);
				all = unit_dot8<format>(ones, high, all);
			}
			UNROLL
			for (int y = 0; y < YTILE; y++) {
				float part = unit_dot8<format>(h[y][0], low, 0);
				part = unit_dot8<format>(h[y][1], high, part);
				sum[y][t] += part * scale[y];
				if constexpr (unit_has_min(format))
					sum[y][t] -= all * min[y];
			}
		}
	}
}

/* A lane's sums over all n_chunks. */
template <int M, int format, int THRDS, int YTILE, int UNR>
DEVICE void unit_sum(const unit_row *rows, const unit_weight &w, int32_t n_chunks,
		     const u32x4 *x, int32_t pitch, int32_t n_tok, float (*sum)[M])
{
	int32_t at = (int32_t)thread_index() % THRDS, base = 0;
	for (; base + THRDS * UNR <= n_chunks; base += THRDS * UNR) {
		unit_raw raw[UNR][YTILE];
		UNROLL
		for (int u = 0; u < UNR; u++)
			UNROLL
			for (int y = 0; y < YTILE; y++)
				unit_load<format>(rows[y], w, {base + u * THRDS + at, 0, 0},
						  &raw[u][y]);
		UNROLL
		for (int u = 0; u < UNR; u++)
			unit_use<M, format, YTILE>(raw[u], w, base + u * THRDS + at, x, pitch,
						   n_tok, sum);
	}
	for (; base + at < n_chunks; base += THRDS) {
		unit_raw raw[YTILE];
		UNROLL
		for (int y = 0; y < YTILE; y++)
			unit_load<format>(rows[y], w, {base + at, 0, 0}, &raw[y]);
		unit_use<M, format, YTILE>(raw, w, base + at, x, pitch, n_tok, sum);
	}
}
