/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for few tokens and experts of all formats but f32
 *           and int4
 * LAYOUT    kernels/moe/moe_launch.h; weights as in the checkpoint,
 *           kernels/weights/weight_units.h
 * GEOMETRY  as moe_int4.hip. up: (F over MOE_ROWS_UP, pairs), 8 waves. Half a wave shares
 *           a row. A lane has two rows of gate and the same two of up, so it computes
 *           silu(g) u where both sums are. LDS: x of the token. down: (D over
 *           MOE_ROWS_DOWN, T). 8 lanes share a row, and a lane has four rows. A wave
 *           takes one slot of the token for all rows of the workgroup; then the slots'
 *           sums are added in order. LDS: h of all slots, and 4 bytes for each row and
 *           slot. The workgroups of one expert are neighbours.
 * PRECISION as linear_blocks.h; nvfp4's global scale times the sum; h rounded to f16;
 *           the sum over slots in f32, in order
 * ROOFLINE  instructions a chunk as in linear_blocks.h; mxfp4 88 for 17 bytes, nvfp4
 *           102 for 18, fp8 87 for 16, int8 46 for 16, f16 12 and bf16 39 for 32. The
 *           slowest (nvfp4) could process 1.3 TB/s on gfx1151, whose memory gives 0.256.
 *           gpt-oss-20b, one token and layer: 4 experts of 2880 x 5760 and 2880 x 2880 in
 *           mxfp4, 53 MB, 0.21 ms at 256 GB/s; 360 workgroups of 8 waves, then 180.
 * TRIED     no other form; the shape is moe_int4.hip's
 * SEE       kernels/ops/moe_experts_ref.c, kernels/moe/moe_int4.hip,
 *           kernels/moe/moe_any.hip
 */
#include "kernels/moe/moe_slots.h"
#include "kernels/weights/unit_sum.h"

/* Fill in *out for rows [row, row + N) of w. Returns the properties that these rows share. */
template <int format, int N>
DEVICE unit_weight moe_rows_at(const weight_view &w, int32_t row, int32_t shift,
			       unit_row *out)
{
	int32_t groups = unit_groups(w.k, w.group);
	UNROLL
	for (int y = 0; y < N; y++)
		out[y] = unit_row_at<format>(w, row + y, groups);
	return {shift, w.scale_format, NULL};
}

template <int format> DEVICE void moe_rows_up(const moe_launch &a)
{
	enum { THRDS = MOE_ROWS_UP_THRDS, EACH = 2, THREADS = MOE_ROWS_WAVES * WAVE };
	LDS_DYNAMIC(u32x4, lds);
	moe_pair p = moe_pair_at(a, group_index_y());
	const uint16_t *x = a.x + p.token * (size_t)a.dim;
	unit_make_table<format>(lds, THREADS);
	unit_stage<format>(x, a.dim, THREADS, lds + unit_table(format));

	weight_view gate = a.table[p.expert * MOE_PARTS + MOE_GATE];
	weight_view up = a.table[p.expert * MOE_PARTS + MOE_UP];
	int32_t f = (int32_t)(group_index_x() * MOE_ROWS_UP);
	f += (int32_t)thread_index() / THRDS * EACH;
	unit_row rows[2 * EACH];
	moe_rows_at<format, EACH>(gate, f, a.up_shift, rows);
	unit_weight w = moe_rows_at<format, EACH>(up, f, a.up_shift, rows + EACH);
	w.table = lds;
	group_barrier();
	float sum[2 * EACH][1] = {};
	unit_sum<1, format, THRDS, 2 * EACH, 1>(rows, w, a.dim / unit_chunk(format),
						lds + unit_table(format), 0, 1, sum);
	UNROLL
	for (int y = 0; y < EACH; y++) {
		float g = lanes_sum<THRDS>(sum[y][0]) * gate.factor;
		float u = lanes_sum<THRDS>(sum[EACH + y][0]) * up.factor;
		if (thread_index() % THRDS == 0 && f + y < a.ffn)
			p.h[f + y] = moe_act(a, p, (size_t)(f + y), g, u);
	}
	if (group_index_x() == 0)
		moe_slots_scale(a, p, x);
}

template <int format> DEVICE void moe_rows_down(const moe_launch &a)
{
	enum { THRDS = MOE_ROWS_DOWN_THRDS, YTILE = 4, THREADS = MOE_ROWS_WAVES * WAVE };
	LDS_DYNAMIC(u32x4, lds);
	int32_t pitch = unit_pieces(a.ffn);
	u32x4 *h = lds + unit_table(format);
	float *part = (float *)(h + a.n_slots * pitch);
	size_t t = group_index_y();
	unit_make_table<format>(lds, THREADS);
	for (int32_t s = 0; s < a.n_slots; s++)
		unit_stage<format>(moe_slot_h(a, t, (size_t)s), a.ffn, THREADS, h + s * pitch);
	group_barrier();
	int32_t d0 = (int32_t)group_index_x() * MOE_ROWS_DOWN;
	int32_t mine = (int32_t)lane_index() / THRDS * YTILE;
	for (int32_t s = (int32_t)wave_index(); s < a.n_slots; s += MOE_ROWS_WAVES) {
		moe_pair p = moe_slot_at(a, t, (size_t)s);
		float weight = moe_slot_weight(a, t, (size_t)s);
		weight_view view = a.table[p.expert * MOE_PARTS + MOE_DOWN];
		unit_row rows[YTILE];
		unit_weight w = moe_rows_at<format, YTILE>(view, d0 + mine, a.down_shift,
							   rows);
		w.table = lds;
		float sum[YTILE][1] = {};
		unit_sum<1, format, THRDS, YTILE, 1>(rows, w, a.ffn / unit_chunk(format),
						     h + s * pitch, 0, 1, sum);
		UNROLL
		for (int y = 0; y < YTILE; y++) {
			float x = lanes_sum<THRDS>(sum[y][0]) * view.factor;
			if (thread_index() % THRDS == 0)
				part[s * MOE_ROWS_DOWN + mine + y] = moe_slots_part(
					a, p, weight, d0 + mine + y, x);
		}
	}
	group_barrier();
	moe_slots_add(a, t, d0, MOE_ROWS_DOWN, part, moe_slots_y(a, t, d0, MOE_ROWS_DOWN));
}

#define MOE_ROWS(name, format) \
	KERNEL(MOE_ROWS_WAVES * WAVE) void moe_rows_up_##name##_kernel(moe_launch a) \
	{ \
		moe_rows_up<format>(a); \
	} \
	KERNEL(MOE_ROWS_WAVES * WAVE) void moe_rows_down_##name##_kernel(moe_launch a) \
	{ \
		moe_rows_down<format>(a); \
	}
MOE_ROWS(f16, WEIGHT_F16)
MOE_ROWS(bf16, WEIGHT_BF16)
#define UNITS MOE_ROWS
#define UNIT_BLOCKS MOE_ROWS
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef MOE_ROWS
