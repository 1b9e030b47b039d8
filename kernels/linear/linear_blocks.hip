/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for weights in GGUF's blocks, few tokens
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
 * SEE       kernels/ops/linear_ref.c; kernels/moe/moe_rows.hip. Loading converts Q4_0,
 *           Q8_0 and MXFP4 blocks exactly to int4, int8 and mxfp4
 *           (src/backend/hip/hip_repack.c)
 */
#include "kernels/device/dialect.h"
#include "kernels/linear/linear_rows.h"
#include "kernels/weights/unit_sum.h"

template <int M, int format> DEVICE void linear_blocks(const linear_rows_args &a)
{
	enum { THRDS = LINEAR_BLOCKS_THRDS, YTILE = LINEAR_BLOCKS_TILE(M), UNR = M > 2 ? 1 : 2 };
	constexpr int32_t EACH = WAVE / THRDS * YTILE, ROWS = LINEAR_ROWS_WAVES * EACH;
	LDS_DYNAMIC(u32x4, lds);
	constexpr int32_t TABLE_PIECES = unit_table(format);
	int32_t pitch = unit_pieces(a.k);
	unit_make_table<format>(lds, LINEAR_ROWS_WAVES * WAVE);
	for (int t = 0; t < M && t < a.n_tok; t++)
		unit_stage<format>(a.x + (size_t)t * (size_t)a.k, a.k,
				   LINEAR_ROWS_WAVES * WAVE, lds + TABLE_PIECES + t * pitch);
	group_barrier();

	int32_t group = (int32_t)group_index_x(), end = a.grid;
	linear_rows_part p = linear_rows_find(a, group, &end);
	weight_view view = {};
	view.q = p.q;
	view.n = p.n;
	view.pitch = p.pitch;
	unit_weight w = {31, SCALE_F16, lds};
	int32_t n = (group - p.first_group) * ROWS + (int32_t)wave_index() * EACH;
	for (; n < p.n; n += (end - p.first_group) * ROWS) {
		int32_t mine = n + (int32_t)lane_index() / THRDS * YTILE;
		unit_row rows[YTILE];
		UNROLL
		for (int y = 0; y < YTILE; y++)
			rows[y] = unit_row_at<format>(view, mine + y, 1);
		float sum[YTILE][M] = {};
		unit_sum<M, format, THRDS, YTILE, UNR>(rows, w, a.k / unit_chunk(format),
						       lds + TABLE_PIECES, pitch, a.n_tok,
						       sum);
		UNROLL
		for (int y = 0; y < YTILE; y++)
			UNROLL
			for (int t = 0; t < M; t++) {
				float x = lanes_sum<THRDS>(sum[y][t]);
				if (thread_index() % THRDS == 0 && mine + y < p.n &&
				    t < a.n_tok)
					linear_store(p.y, (size_t)t * (size_t)p.n +
								  (size_t)(mine + y),
						     p.bias ? x + p.bias[mine + y] : x,
						     p.store);
			}
	}
}

#define LINEAR_BLOCKS_M(name, format, m) \
	KERNEL(LINEAR_ROWS_WAVES * WAVE) \
	void linear_blocks_##name##_m##m##_kernel(linear_rows_args a) \
	{ \
		linear_blocks<m, format>(a); \
	}
#define LINEAR_BLOCKS(name, format) \
	LINEAR_BLOCKS_M(name, format, 1) LINEAR_BLOCKS_M(name, format, 2) \
	LINEAR_BLOCKS_M(name, format, 4) LINEAR_BLOCKS_M(name, format, 8)
#define UNITS(...)
#define UNIT_BLOCKS LINEAR_BLOCKS
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef LINEAR_BLOCKS
#undef LINEAR_BLOCKS_M
