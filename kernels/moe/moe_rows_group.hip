/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for experts in units and 2 to MOE_GROUP_TOK tokens,
 *           with the bits of moe_rows.hip
 * LAYOUT    as moe_rows.hip
 * GEOMETRY  as moe_int4_group.hip: weights are read once for a group of up to MOE_GROUP
 *           pairs (moe_group.h). up: the grid of moe_rows.hip; workgroups of pairs that lead
 *           no group return. down: (D over MOE_ROWS_DOWN). A wave takes pairs in turns; the
 *           host takes fewer waves where h is long
 * PRECISION as moe_rows.hip. A row's sum is that of one token: products of different pairs are
 *           never added together
 * ROOFLINE  a unit is converted once for a group. A group of two or three counts as four
 * TRIED     no other form
 * SEE       kernels/ops/moe_experts_ref.c, kernels/moe/moe_int4_group.hip
 */
#include "kernels/moe/moe_group.h"
#include "kernels/weights/unit_sum.h"

/* Fill in *out for rows [row, row + N) of w. Returns the properties that these rows share. */
template <int format, int N>
DEVICE unit_weight moe_rows_group_at(const weight_view &w, int32_t row, int32_t shift,
				     unit_row *out)
{
	int32_t groups = unit_groups(w.k, w.group);
	UNROLL
	for (int y = 0; y < N; y++)
		out[y] = unit_row_at<format>(w, row + y, groups);
	return {shift, w.scale_format, NULL};
}

/* Rows [f, f + 2) of a group's h. x: LDS. */
template <int M, int format>
DEVICE void moe_rows_group_up_rows(const moe_launch &a, const moe_group &g, const u32x4 *x,
				   int32_t pitch, int32_t f)
{
	enum { THRDS = MOE_ROWS_UP_THRDS, EACH = 2 };
	weight_view gate = a.table[g.expert * MOE_PARTS + MOE_GATE];
	weight_view up = a.table[g.expert * MOE_PARTS + MOE_UP];
	unit_row rows[2 * EACH];
	moe_rows_group_at<format, EACH>(gate, f, a.up_shift, rows);
	unit_weight w = moe_rows_group_at<format, EACH>(up, f, a.up_shift, rows + EACH);
	float sum[2 * EACH][M] = {};
	unit_sum<M, format, THRDS, 2 * EACH, 1>(rows, w, a.dim / unit_chunk(format), x, pitch,
						M, sum);
	int32_t mine = (int32_t)thread_index() % THRDS;
	UNROLL
	for (int y = 0; y < EACH; y++) {
		float one = 0, other = 0;
		UNROLL
		for (int t = 0; t < M; t++) {
			float low = lanes_sum<THRDS>(sum[y][t]) * gate.factor;
			float high = lanes_sum<THRDS>(sum[EACH + y][t]) * up.factor;
			one = mine == t ? low : one;
			other = mine == t ? high : other;
		}
		if (mine < g.n && f + y < a.ffn) {
			moe_pair p = moe_group_pair(a, g, mine);
			p.h[f + y] = moe_act(a, p, (size_t)(f + y), one, other);
		}
	}
}

template <int format> DEVICE void moe_rows_group_up(const moe_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	moe_ids ids = moe_ids_of(a);
	moe_group g = moe_group_of(a, ids, moe_pair_at(a, group_index_y()));
	if (!g.n)
		return;
	int32_t pitch = unit_pieces(a.dim), f = (int32_t)(group_index_x() * MOE_ROWS_UP);
	f += (int32_t)thread_index() / MOE_ROWS_UP_THRDS * 2;
	for (int32_t i = 0; i < (g.n > 1 ? MOE_GROUP : 1); i++) {
		moe_pair p = moe_group_pair(a, g, i);
		unit_stage<format>(a.x + p.token * (size_t)a.dim, a.dim, MOE_ROWS_WAVES * WAVE,
				   lds + i * pitch);
	}
	group_barrier();
	if (g.n == 1)
		moe_rows_group_up_rows<1, format>(a, g, lds, pitch, f);
	else
		moe_rows_group_up_rows<MOE_GROUP, format>(a, g, lds, pitch, f);
	if (group_index_x() == 0)
		moe_group_scale(a, g);
}

/* A group's parts of this lane's rows of y, from d0 + at on. h: LDS of this wave; part: LDS of
 * the workgroup. */
template <int M, int format>
DEVICE void moe_rows_group_down_rows(const moe_launch &a, const moe_group &g, const u32x4 *h,
				     int32_t pitch, int32_t d0, int32_t at, float *part)
{
	enum { THRDS = MOE_ROWS_DOWN_THRDS, YTILE = 4 };
	weight_view view = a.table[g.expert * MOE_PARTS + MOE_DOWN];
	unit_row rows[YTILE];
	unit_weight w = moe_rows_group_at<format, YTILE>(view, d0 + at, a.down_shift, rows);
	float sum[YTILE][M] = {};
	unit_sum<M, format, THRDS, YTILE, 1>(rows, w, a.ffn / unit_chunk(format), h, pitch, M,
					     sum);
	int32_t mine = (int32_t)thread_index() % THRDS;
	moe_pair p = moe_group_pair(a, g, mine < M ? mine : 0);
	float weight = moe_slot_weight(a, p.token, p.slot);
	UNROLL
	for (int y = 0; y < YTILE; y++) {
		float x = 0;
		UNROLL
		for (int t = 0; t < M; t++) {
			float all = lanes_sum<THRDS>(sum[y][t]) * view.factor;
			x = mine == t ? all : x;
		}
		if (mine < g.n)
			part[moe_group_part(p) * MOE_ROWS_DOWN + at + y] =
				moe_slots_part(a, p, weight, d0 + at + y, x);
	}
}

/* Copy h of a group's pair to LDS, by the wave. */
template <int format> DEVICE void moe_rows_group_copy(const uint16_t *h, int32_t k, u32x4 *to)
{
	for (int32_t p = (int32_t)lane_index(); p < k / 8; p += WAVE)
		to[unit_place(p)] = unit_order<format>(((const u32x4 *)h)[p]);
}

template <int format> DEVICE void moe_rows_group_down(const moe_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	int32_t pitch = unit_pieces(a.ffn), wave = (int32_t)wave_index();
	u32x4 *h = lds + wave * MOE_GROUP * pitch;
	float *part = (float *)(lds + a.n_waves * MOE_GROUP * pitch);
	int32_t d0 = (int32_t)group_index_x() * MOE_ROWS_DOWN;
	int32_t at = (int32_t)lane_index() / MOE_ROWS_DOWN_THRDS * 4;
	moe_ids ids = moe_ids_of(a);
	for (int32_t q = wave; q < a.n_tok * a.n_slots; q += a.n_waves) {
		moe_group g = moe_group_of(a, ids, moe_pair_at(a, (size_t)q));
		if (!g.n)
			continue;
		for (int32_t i = 0; i < (g.n > 1 ? MOE_GROUP : 1); i++)
			moe_rows_group_copy<format>(moe_group_pair(a, g, i).h, a.ffn,
						    h + i * pitch);
		wave_barrier();
		if (g.n == 1)
			moe_rows_group_down_rows<1, format>(a, g, h, pitch, d0, at, part);
		else
			moe_rows_group_down_rows<MOE_GROUP, format>(a, g, h, pitch, d0, at,
								    part);
		wave_barrier(); /* all lanes have read h */
	}
	group_barrier();
	moe_group_add<MOE_ROWS_DOWN>(a, d0, part);
}

#define MOE_ROWS_GROUP(name, format) \
	KERNEL(MOE_ROWS_WAVES * WAVE) void moe_rows_group_up_##name##_kernel(moe_launch a) \
	{ \
		moe_rows_group_up<format>(a); \
	} \
	KERNEL(MOE_GROUP_WAVES * WAVE) void moe_rows_group_down_##name##_kernel(moe_launch a) \
	{ \
		moe_rows_group_down<format>(a); \
	}
/* hip_experts.c has a list of the same formats. */
MOE_ROWS_GROUP(int8, WEIGHT_INT8)
MOE_ROWS_GROUP(fp8, WEIGHT_FP8)
MOE_ROWS_GROUP(nvfp4, WEIGHT_NVFP4)
MOE_ROWS_GROUP(mxfp4, WEIGHT_MXFP4)
MOE_ROWS_GROUP(q4_k, WEIGHT_Q4_K)
MOE_ROWS_GROUP(q6_k, WEIGHT_Q6_K)
