/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for weights in GGUF's blocks, few tokens; fused with the norm
 *           before, for up to FUSED_NORM_TOK tokens. linear_pairs: parts of two formats
 * LAYOUT    kernels/linear/linear_rows.h (the arguments), kernels/weights/weight_units.h:
 *           blocks as in the file; a lane loads 16 bytes from wherever they begin
 * GEOMETRY  workgroups of 8 waves. Half a wave shares a row. A lane has 2 rows (M = 8: 1)
 *           with one step in flight (M <= 2: two), then goes on to further rows of the
 *           part. LDS: the activations of M tokens, at most 64 KiB.
 * PRECISION integers become halves exactly; products by v_dot2 in f32. Each partial sum
 *           of sixteen is multiplied by its scale in f32; the minimum times the sum of
 *           its inputs is subtracted
 * ROOFLINE  vector instructions for a chunk of 16 bytes at M = 1, including its share of
 *           scales: Q4_1 76, Q4_K 123 and IQ4_NL 122 for 32 weights (18 bytes), Q5_K 153
 *           (22), Q6_K 115 (26), Q2_K 203 for 64 (21), Q3_K 237 (27), IQ2_XXS 185 (16.5),
 *           IQ3_XXS 205 (24.5; 410 with a table of codes instead of halves).
 *           80 SIMDs at 2.9 GHz, one instruction a cycle each: 1.1 TB/s of Q4_K, 0.66 of
 *           IQ2_XXS; memory has 0.256. gfx1100 (192 SIMDs at 2.5 GHz): 2.2 and 1.4 TB/s;
 *           memory has 0.864.
 * TRIED     (on paper) a block's bytes through LDS, read in aligned 16-byte pieces: as
 *           many loads, and three times the LDS traffic. Repacking into aligned arrays at
 *           load: a second layout for every reader of the file's layout
 * SEE       kernels/ops/linear_ref.c; kernels/moe/moe_rows.hip, moe_route_rows.hip. Loading
 *           converts Q4_0, Q8_0 and MXFP4 blocks exactly to int4, int8 and mxfp4
 *           (src/backend/hip/hip_repack.c)
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/linear/linear_rows.h"
#include "kernels/linear/fused_norm_stage.h"
#include "kernels/weights/unit_sum.h"

/* The rows of part p. x: the activations in LDS, behind the format's table. */
template <int M, int format>
DEVICE void linear_blocks_part(const linear_rows_args &a, const linear_rows_part &p, int32_t group,
			       int32_t end, const u32x4 *table, const u32x4 *x, float *keep)
{
	enum { THRDS = LINEAR_BLOCKS_THRDS, YTILE = LINEAR_BLOCKS_TILE(M), UNR = M > 2 ? 1 : 2 };
	constexpr int32_t EACH = WAVE / THRDS * YTILE, ROWS = LINEAR_ROWS_WAVES * EACH;
	weight_view view = {};
	view.q = p.q;
	view.n = p.n;
	view.pitch = p.pitch;
	unit_weight w = {31, SCALE_F16, table};
	int32_t n = (group - p.first_group) * ROWS + (int32_t)wave_index() * EACH;
	for (; n < p.n; n += (end - p.first_group) * ROWS) {
		int32_t mine = n + (int32_t)lane_index() / THRDS * YTILE;
		unit_row rows[YTILE];
		UNROLL
		for (int y = 0; y < YTILE; y++)
			rows[y] = unit_row_at<format>(view, mine + y, 1);
		float sum[YTILE][M] = {};
		unit_sum<M, format, THRDS, YTILE, UNR>(rows, w, a.k / unit_chunk(format), x,
						       unit_pieces(a.k), a.n_tok, sum);
		UNROLL
		for (int y = 0; y < YTILE; y++)
			UNROLL
			for (int t = 0; t < M; t++) {
				float v = lanes_sum<THRDS>(sum[y][t]);
				if (thread_index() % THRDS != 0 || mine + y >= p.n ||
				    t >= a.n_tok)
					continue;
				v = linear_store(p.y, (size_t)t * (size_t)p.n +
							      (size_t)(mine + y),
						 p.bias ? v + p.bias[mine + y] : v, p.store);
				if (keep)
					keep[(mine + y) % ROWS] = v;
			}
	}
}

/* other: the format of parts with is_other, whose inputs lie in LDS in the same way. keep: as in
 * linear_rows. */
template <int M, int format, int other = format>
DEVICE void linear_blocks(const linear_rows_args &a, float *keep = nullptr)
{
	static_assert(other == format || (unit_table(format) == 0 && unit_table(other) == 0),
		      "no tables in LDS");
	LDS_DYNAMIC(u32x4, lds);
	constexpr int32_t TABLE_PIECES = unit_table(format);
	int32_t pitch = unit_pieces(a.k);
	unit_make_table<format>(lds, LINEAR_ROWS_WAVES * WAVE);
	for (int t = 0; t < M && t < a.n_tok; t++) {
		u32x4 *to = lds + TABLE_PIECES + t * pitch;
		if (M <= FUSED_NORM_TOK && a.norm.x)
			fused_norm_stage<LINEAR_ROWS_WAVES * WAVE>(
				a.norm, t, a.k, (float *)to, [&](int32_t p, u32x4 v) {
					to[unit_place(p)] = unit_order<format>(v);
				});
		else
			unit_stage<format>(a.x + (size_t)t * (size_t)a.k, a.k,
					   LINEAR_ROWS_WAVES * WAVE, to);
	}
	group_barrier();

	int32_t group = (int32_t)group_index_x(), end = a.grid;
	linear_rows_part p = linear_rows_find(a, group, &end);
	if (other != format && p.is_other)
		linear_blocks_part<M, other>(a, p, group, end, lds, lds + TABLE_PIECES, keep);
	else
		linear_blocks_part<M, format>(a, p, group, end, lds, lds + TABLE_PIECES, keep);
}
