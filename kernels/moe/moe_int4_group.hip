/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for int4 experts and 2 to MOE_GROUP_TOK tokens, with
 *           the bits of moe_int4.hip
 * LAYOUT    as moe_int4.hip
 * GEOMETRY  weights are read once for a group of up to MOE_GROUP pairs (moe_group.h).
 *           up: the grid of moe_int4.hip; workgroups of pairs that lead no group return.
 *           LDS: x of the group's tokens.
 *           down: (D over 32/THRDS x YTILE). A wave takes pairs in turns, for all rows of
 *           the workgroup. LDS: h of each wave's group, and the part of y of each pair.
 *           The host takes fewer waves where h is long.
 * PRECISION as moe_int4.hip. A row's sum is that of one token: products of different pairs are
 *           never added together
 * ROOFLINE  16 tokens of 8 of 128 experts, chosen evenly: 82 experts of 128 pairs, 1.1 GB
 *           of Qwen3-30B-A3B's 48 layers saved a step. Instructions for a word as in
 *           linear_int4_dot.h, 9 and 4 for each token; a group of two or three counts as
 *           four.
 * TRIED     (by prediction) pairs sorted by a launch before, and parts added by a launch after:
 *           two gaps of 3.85 us a layer, more than steps of two to four tokens would gain
 * SEE       kernels/ops/moe_experts_ref.c, kernels/moe/moe_int4.def
 */
#include "kernels/moe/moe_group.h"
#include "kernels/moe/moe_int4_rows.h"

/* Rows [f, f + YTILE / 2) of a group's h. x: LDS. */
template <int M, int THRDS, int YTILE, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void moe_int4_group_up_rows(const moe_launch &a, const moe_group &g,
				   const linear_int4_rows<YTILE> &rows, const u32x4 *x,
				   int32_t n_pieces, int32_t f)
{
	linear_int4_args args = {};
	args.k = a.dim;
	args.group_shift = a.up_shift;
	float sum[YTILE][M] = {};
	constexpr int AT_ONCE = M > 1 ? 1 : UNR; /* more would need more registers */
	linear_int4_sum<M, THRDS, YTILE, CHUNK, AT_ONCE, HAS_ZERO>(&args, &rows, x, n_pieces,
								   sum);
	int32_t mine = (int32_t)thread_index() % THRDS;
	UNROLL
	for (int y = 0; y < YTILE / 2; y++) {
		float gate = 0, up = 0;
		UNROLL
		for (int t = 0; t < M; t++) {
			float one = lanes_sum<THRDS>(sum[y][t]);
			float other = lanes_sum<THRDS>(sum[YTILE / 2 + y][t]);
			gate = mine == t ? one : gate;
			up = mine == t ? other : up;
		}
		if (mine < g.n && f + y < a.ffn) {
			moe_pair p = moe_group_pair(a, g, mine);
			p.h[f + y] = moe_act(a, p, (size_t)(f + y), gate, up);
		}
	}
}

template <int THRDS, int YTILE, int WAVES, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void moe_int4_group_up(const moe_launch &a)
{
	constexpr int32_t STEP = LINEAR_INT4_STEP(THRDS, CHUNK), EACH = YTILE / 2;
	LDS_DYNAMIC(u32x4, lds);
	moe_ids ids = moe_ids_of(a);
	moe_group g = moe_group_of(a, ids, moe_pair_at(a, group_index_y()));
	if (!g.n)
		return;
	int32_t n_pieces = (a.dim + STEP - 1) / STEP * STEP / 8;
	for (int32_t i = 0; i < (g.n > 1 ? MOE_GROUP : 1); i++) {
		moe_pair p = moe_group_pair(a, g, i);
		linear_int4_stage<1, THRDS, CHUNK>(a.x + p.token * (size_t)a.dim, a.dim,
						   WAVES * WAVE, n_pieces, lds + i * n_pieces);
	}
	weight_view gate = a.table[g.expert * MOE_PARTS + MOE_GATE];
	weight_view up = a.table[g.expert * MOE_PARTS + MOE_UP];
	int32_t f = (int32_t)(group_index_x() * WAVES + wave_index()) * (WAVE / THRDS) * EACH;
	f += (int32_t)lane_index() / THRDS * EACH;
	linear_int4_rows<YTILE> rows;
	rows.is_bf16 = a.is_bf16;
	UNROLL
	for (int y = 0; y < EACH; y++) {
		moe_int4_row<YTILE, HAS_ZERO>(&rows, y, gate, f + y);
		moe_int4_row<YTILE, HAS_ZERO>(&rows, EACH + y, up, f + y);
	}
	group_barrier();
	if (g.n == 1)
		moe_int4_group_up_rows<1, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(a, g, rows, lds,
									      n_pieces, f);
	else
		moe_int4_group_up_rows<MOE_GROUP, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(
			a, g, rows, lds, n_pieces, f);
	if (group_index_x() == 0)
		moe_group_scale(a, g);
}

/* A group's parts of rows [row, row + YTILE) of y. h: LDS of this wave; part: LDS of the
 * workgroup; `at`: the first row's place in it. */
template <int M, int THRDS, int YTILE, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void moe_int4_group_down_rows(const moe_launch &a, const moe_group &g,
				     const linear_int4_rows<YTILE> &rows, const u32x4 *h,
				     int32_t n_pieces, int32_t row, int32_t at, float *part)
{
	constexpr int32_t ROWS = MOE_INT4_DOWN_ROWS(THRDS, YTILE);
	linear_int4_args args = {};
	args.k = a.ffn;
	args.group_shift = a.down_shift;
	float sum[YTILE][M] = {};
	constexpr int AT_ONCE = M > 1 ? 1 : UNR < 2 ? UNR : 2; /* more would need more registers */
	linear_int4_sum<M, THRDS, YTILE, CHUNK, AT_ONCE, HAS_ZERO>(&args, &rows, h, n_pieces,
								   sum);
	int32_t mine = (int32_t)thread_index() % THRDS;
	moe_pair p = moe_group_pair(a, g, mine < M ? mine : 0);
	float weight = moe_slot_weight(a, p.token, p.slot);
	UNROLL
	for (int y = 0; y < YTILE; y++) {
		float x = 0;
		UNROLL
		for (int t = 0; t < M; t++) {
			float all = lanes_sum<THRDS>(sum[y][t]);
			x = mine == t ? all : x;
		}
		if (mine < g.n)
			part[moe_group_part(p) * ROWS + at + y] =
				moe_slots_part(a, p, weight, row + y, x);
	}
}

template <int THRDS, int YTILE, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void moe_int4_group_down(const moe_launch &a)
{
	constexpr int32_t STEP = LINEAR_INT4_STEP(THRDS, CHUNK);
	constexpr int32_t ROWS = MOE_INT4_DOWN_ROWS(THRDS, YTILE);
	LDS_DYNAMIC(u32x4, lds);
	int32_t n_pieces = (a.ffn + STEP - 1) / STEP * STEP / 8, wave = (int32_t)wave_index();
	u32x4 *h = lds + wave * MOE_GROUP * n_pieces;
	float *part = (float *)(lds + a.n_waves * MOE_GROUP * n_pieces);
	int32_t d0 = (int32_t)group_index_x() * ROWS;
	int32_t at = (int32_t)lane_index() / THRDS * YTILE;
	moe_ids ids = moe_ids_of(a);
	for (int32_t q = wave; q < a.n_tok * a.n_slots; q += a.n_waves) {
		moe_group g = moe_group_of(a, ids, moe_pair_at(a, (size_t)q));
		if (!g.n)
			continue;
		weight_view w = a.table[g.expert * MOE_PARTS + MOE_DOWN];
		linear_int4_rows<YTILE> rows;
		rows.is_bf16 = a.is_bf16;
		UNROLL
		for (int y = 0; y < YTILE; y++)
			moe_int4_row<YTILE, HAS_ZERO>(&rows, y, w, d0 + at + y);
		for (int32_t i = 0; i < (g.n > 1 ? MOE_GROUP : 1); i++)
			linear_int4_copy<THRDS, CHUNK>(moe_group_pair(a, g, i).h, a.ffn,
						       (int32_t)lane_index(), WAVE, n_pieces,
						       h + i * n_pieces);
		wave_barrier();
		if (g.n == 1)
			moe_int4_group_down_rows<1, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(
				a, g, rows, h, n_pieces, d0 + at, at, part);
		else
			moe_int4_group_down_rows<MOE_GROUP, THRDS, YTILE, CHUNK, UNR,
						 HAS_ZERO>(a, g, rows, h, n_pieces, d0 + at,
							   at, part);
		wave_barrier(); /* all lanes have read h */
	}
	group_barrier();
	moe_group_add<ROWS>(a, d0, part);
}

#define UP_KERNEL(name, word, thrds, ytile, waves, chunk, unr, has_zero) \
	KERNEL(waves * WAVE) void moe_int4_group_up_##name##word##_kernel(moe_launch a) \
	{ \
		moe_int4_group_up<thrds, ytile, waves, chunk, unr, has_zero>(a); \
	}
#define DOWN_KERNEL(name, word, thrds, ytile, chunk, unr, has_zero) \
	KERNEL(MOE_GROUP_WAVES * WAVE) \
	void moe_int4_group_down_##name##word##_kernel(moe_launch a) \
	{ \
		moe_int4_group_down<thrds, ytile, chunk, unr, has_zero>(a); \
	}
#define UP(name, thrds, ytile, waves, chunk, unr) \
	UP_KERNEL(name, , thrds, ytile, waves, chunk, unr, false) \
	UP_KERNEL(name, _zero, thrds, ytile, waves, chunk, unr, true)
#define DOWN(name, thrds, ytile, waves, chunk, unr) \
	DOWN_KERNEL(name, , thrds, ytile, chunk, unr, false) \
	DOWN_KERNEL(name, _zero, thrds, ytile, chunk, unr, true)
#include "kernels/moe/moe_int4.def"
#undef UP
#undef DOWN
#undef UP_KERNEL
#undef DOWN_KERNEL
