/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for int4 experts and few tokens, in two launches.
 *           The first can also choose the experts (kernels/ops/moe_router.h)
 * LAYOUT    kernels/moe/moe_launch.h; weights, and activations in LDS, as in quad.h
 * GEOMETRY  up: blocks of 8 ROWS of F for each pair, plus one first workgroup for work that a
 *           token needs once (moe_pick.h). Row g of a lane is gate's, row g + 8 the same row
 *           of up. Each workgroup finds its own expert in the logits. down: blocks of 16 of D
 *           for each token, SPLIT waves a slot; the slots' parts are added in order. Where not
 *           all blocks run at once, a workgroup takes several (up_step, down_step). LDS:
 *           MOE_QUAD_UP_LDS, MOE_QUAD_DOWN_LDS
 * PRECISION as linear_quad_sum.h; h rounded to f16; the sum over slots in f32, in order
 * ROOFLINE  as moe_int4.hip, but with few tokens the chain of dependent loads decides.
 *           up: logits, with x beside them; the expert; its weights, all of a wave's in
 *           flight at once (Qwen3-30B-A3B: 14.2 MB, 3.1 us of an H200's memory); the
 *           waves' sums. down: the id, with h, y and the experts' weights beside it; the
 *           weights (7.1 MB, 1.6 us); the waves' sums; the slots' sums. No other load or
 *           division lies between, since each costs 100 cycles and more.
 * TRIED     (on an NVIDIA H200, Qwen3-30B-A3B, in us) up 10.3 (shape four; shape wide
 *           11.65). down 6.9 (10.6 before its loads were issued at once). With a workgroup
 *           for each block, steps of 8, 4 and 2 tokens take 1.17, 1.10 and 1.03 times as long:
 *           the start of a workgroup and the way to its weights cost more than the weights.
 *           All waves of each workgroup choosing: workgroups of 16 rows, which run in two
 *           rounds: 14.9; of 32: 11.6; of 8: 16.4; without any choice: 10.3. Weights found by
 *           the table: 12.1. up asks for down's weights when its own are used: a token of
 *           48 layers 1.007 times as fast; when its own are on their way: 0.99
 * SEE       kernels/ops/moe_experts_ref.c
 */
#include "kernels/linear/linear_int4_words.h"
#include "kernels/moe/moe_pick.h"
#include "kernels/moe/moe_sum.h"
#include "kernels/linear/quad.h"
#include "kernels/rows/rms_norm_row.h"

/* Set row y of a lane to row `row` of w, or to w's last row if that is past the end. */
template <int KIND>
DEVICE void moe_quad_row(const weight_view &w, int32_t row, int32_t n_groups, int y,
			 quad_rows *out)
{
	size_t n = (size_t)(row < w.n ? row : w.n - 1), groups = (size_t)n_groups;
	out->q[y] = (const uint32_t *)w.q + n * (size_t)(w.pitch / 4) + lane_index() % 4 * 4;
	out->scales[y] = (const uint16_t *)w.scales + n * groups;
	if constexpr (KIND == QUAD_ZERO) {
		out->zeros[y] = w.zero_points + n / 8 * groups;
		out->zero_shift[y] = (uint32_t)n % 8 * 4;
	}
}

DEVICE int32_t moe_quad_groups(int32_t k, int32_t shift)
{
	return shift == 31 ? 1 : k >> shift;
}

DEVICE const void *moe_quad_at(const moe_run &r, size_t e)
{
	return ((int32_t)e < r.split ? r.p[0] : r.p[1]) + e * r.step;
}

/* The expert's weight of one part. It is computed from the distance between experts if
 * that is constant: a lookup in the table is one more load before the weights. */
template <int KIND>
DEVICE weight_view moe_quad_view(const moe_launch &a, const moe_pair &p, int part)
{
	const moe_span *s = &a.span[part];
	if (KIND == QUAD_ZERO || !s->q.p[0] || p.is_shared)
		return a.table[p.expert * MOE_PARTS + (size_t)part];
	weight_view w = {};
	w.q = moe_quad_at(s->q, p.expert);
	w.scales = moe_quad_at(s->scales, p.expert);
	w.pitch = s->pitch;
	w.n = part == MOE_DOWN ? a.dim : a.ffn;
	return w;
}

/* Load UNR steps from s on; see moe_quad_sum. */
template <int UNR, int KIND>
DEVICE void moe_quad_load(const quad_rows &r, int32_t s, int32_t end, quad_step<KIND> *out)
{
	UNROLL
	for (int u = 0; u < UNR; u++)
		quad_load<KIND>(r, s + u, KIND == QUAD_G32 ? s + u + 1 : end, &out[u]);
}

/* Part i of SPLIT of the K elements, counted in steps. */
struct moe_quad_part {
	int32_t from, end;
};

template <int SPLIT> DEVICE moe_quad_part moe_quad_part_of(int32_t k, int32_t i)
{
	int32_t n_steps = k / QUAD_STEP, each = (n_steps + SPLIT - 1) / SPLIT;
	int32_t from = i * each;
	return {from, from + each < n_steps ? from + each : n_steps};
}

/* Pieces of activations being copied to LDS. They are loaded all at once, before the
 * weights, and stored to LDS while the weights arrive. */
enum { MOE_QUAD_HELD = 4 };
struct moe_quad_held {
	u32x4 v[MOE_QUAD_HELD];
};

/* Load pieces first, first + THREADS, … of n; from(i) is the address of piece i. */
template <int THREADS, class F>
DEVICE void moe_quad_hold(int32_t first, int32_t n, F from, moe_quad_held *out)
{
	UNROLL
	for (int i = 0; i < MOE_QUAD_HELD; i++) {
		int32_t p = first + i * THREADS;
		out->v[i] = p < n ? *from(p) : u32x4{};
	}
}

template <int THREADS>
DEVICE void moe_quad_put(int32_t first, int32_t n, const moe_quad_held &held, u32x4 *to)
{
	UNROLL
	for (int i = 0; i < MOE_QUAD_HELD; i++) {
		int32_t p = first + i * THREADS;
		if (p < n)
			to[quad_place(p)] = quad_piece(held.v[i]);
	}
}

/* Store all n pieces to LDS, after the zeros of quad_zeros. Registers hold the first
 * pieces already; the others are loaded here. */
template <int THREADS, class F>
DEVICE void moe_quad_stage(int32_t n, F from, moe_quad_held *held, u32x4 *lds)
{
	int32_t at = (int32_t)thread_index();
	quad_zeros(lds);
	for (;;) {
		moe_quad_put<THREADS>(at, n, *held, lds + QUAD_ZEROS);
		at += MOE_QUAD_HELD * THREADS;
		if (at >= n)
			return;
		moe_quad_hold<THREADS>(at, n, from, held);
	}
}

/* sum += steps [from, end); `now` holds the first UNR steps. A kernel without a suffix
 * gets whole turns of UNR steps and needs no bounds check. The next steps are loaded
 * after the use, not before: they are rare, and a second set of registers would cost
 * waves. */
template <int UNR, int KIND>
DEVICE void moe_quad_sum(const quad_rows &rows, int32_t from, int32_t end,
			 quad_step<KIND> *now, const quad_inputs<1> &x, quad_sums<1> *sum)
{
	if (from >= end)
		return;
	for (int32_t s = from;;) {
		UNROLL
		for (int u = 0; u < UNR; u++)
			quad_use<1, KIND>(rows, now[u], s + u,
					  KIND == QUAD_G32 ? s + u + 1 : end, x, sum);
		s += UNR;
		if (s >= end)
			return;
		moe_quad_load<UNR, KIND>(rows, s, end, now);
	}
}

/* A wave's part of a block: sixteen rows, a part of their elements, and their first steps. up: rows
 * are eight of gate and eight of up. down: rows [d0, d0 + 16) of one slot. */
template <int UNR, int KIND> struct moe_quad_job {
	quad_rows rows;
	quad_step<KIND> now[UNR];
	moe_quad_part part;
};

/* Find the rows of a block of up and load their first steps. */
template <int SPLIT, int ROWS, int UNR, int KIND>
DEVICE void moe_quad_up_begin(const moe_launch &a, const moe_pair &pair, int32_t block,
			      moe_quad_job<UNR, KIND> *j)
{
	int32_t g = (int32_t)lane_index() / 4, groups = moe_quad_groups(a.dim, a.up_shift);
	int32_t row = (block * ROWS + (int32_t)wave_index() / SPLIT) * 8 + g;
	moe_quad_row<KIND>(moe_quad_view<KIND>(a, pair, MOE_GATE), row, groups, 0, &j->rows);
	moe_quad_row<KIND>(moe_quad_view<KIND>(a, pair, MOE_UP), row, groups, 1, &j->rows);
	if (j->part.from < j->part.end)
		moe_quad_load<UNR, KIND>(j->rows, j->part.from, j->part.end, j->now);
}

/* Ask for the workgroup's share of down's weights of the pair's expert: the next launch begins with
 * them. Experts' places must be known, or their addresses would come from memory first. */
template <int THREADS>
DEVICE void moe_quad_ahead(const moe_launch &a, const moe_pair &p, int32_t block)
{
	const moe_span *s = &a.span[MOE_DOWN];
	if (!s->q.p[0] || p.is_shared)
		return;
	const char *q = (const char *)moe_quad_at(s->q, p.expert);
	const char *scales = (const char *)moe_quad_at(s->scales, p.expert);
	int32_t n_q = s->pitch * a.dim / LINE_BYTES;
	int32_t n = n_q + moe_quad_groups(a.ffn, a.down_shift) * 2 * a.dim / LINE_BYTES;
	for (int32_t i = block * THREADS + (int32_t)thread_index(); i < n;
	     i += a.up_step * THREADS)
		ask_line(i < n_q ? q + (size_t)i * LINE_BYTES
				 : scales + (size_t)(i - n_q) * LINE_BYTES);
}

/* Store a block's rows of h from the waves' sums in LDS. */
template <int SPLIT, int ROWS>
DEVICE void moe_quad_up_store(const moe_launch &a, const moe_pair &pair, int32_t block,
			      const float *sums)
{
	constexpr int32_t PITCH = ROWS * QUAD_ROWS;
	int32_t i = (int32_t)thread_index(), f = block * ROWS * 8 + i;
	if (i >= ROWS * 8 || f >= a.ffn)
		return;
	float gate = 0, up = 0;
	const float *at = sums + i / 8 * QUAD_ROWS + i % 8;
	UNROLL
	for (int s = 0; s < SPLIT; s++) {
		gate += at[s * PITCH];
		up += at[s * PITCH + 8];
	}
	pair.h[f] = moe_act(a, pair, (size_t)f, gate, up);
}

/* x and the logits of one token, of which moe_route.hip has left sums. What a thread loads at
 * first: pieces of x, the norm's weights for the first HELD of them, and the sum of an expert. */
template <int THREADS> struct moe_quad_routed {
	enum { HELD = RMS_NORM_HELD(THREADS) < 2 ? 1 : 2 };
	rms_norm_held<THREADS> x;
	rms_norm_8 weight[HELD];
	uint64_t sum;
};

template <int THREADS>
DEVICE void moe_quad_routed_hold(const moe_launch &a, moe_quad_routed<THREADS> *out)
{
	int32_t at = (int32_t)thread_index();
	rms_norm_hold<THREADS, true>(a.norm.x, a.dim, &out->x);
	UNROLL
	for (int i = 0; i < out->HELD; i++)
		out->weight[i] = rms_norm_load<true>(a.norm.weight, (at + i * THREADS) * 8, a.dim);
	out->sum = at < a.shared ? a.sums[at] : 0;
}

/* Compute the logits and the keys by which experts are chosen (moe_pick_keys), in LDS. Returns the
 * norm's scale. */
template <int THREADS>
DEVICE float moe_quad_routed_logits(const moe_launch &a, const moe_quad_routed<THREADS> &r,
				    float *logits, uint32_t *keys)
{
	LDS(float, part, RMS_NORM_WAVES);
	const moe_router_rule rule = moe_pick_rule(a);
	float scale = rms_norm_scale<THREADS, true>(r.x, a.norm.x, a.dim, a.norm.eps, part);
	int32_t at = (int32_t)thread_index();
	for (int32_t e = at; e < a.shared; e += THREADS) {
		logits[e] = moe_sum_logit(e == at ? r.sum : a.sums[e], scale, a.rule.logit_bias,
					  (size_t)e);
		keys[e] = moe_pick_key(rule, logits[e], (uint32_t)e);
	}
	group_barrier();
	return scale;
}

/* Call put(p, piece) for the thread's pieces of the normalised x. */
template <int THREADS, class F>
DEVICE void moe_quad_routed_x(const moe_launch &a, const moe_quad_routed<THREADS> &r, float scale,
			      F put)
{
	int32_t p = (int32_t)thread_index();
	UNROLL
	for (int i = 0; i < r.HELD; i++, p += THREADS)
		if (p < a.dim / 8)
			put(p, rms_norm_piece(r.x.p[i], r.weight[i], scale));
	ONE_BY_ONE
	for (; p < a.dim / 8; p += THREADS)
		put(p, rms_norm_piece(rms_norm_load<true>(a.norm.x, p * 8, a.dim),
				      rms_norm_load<true>(a.norm.weight, p * 8, a.dim), scale));
}

/* Copy the token's x to LDS, and find the workgroup's expert. r: what it has asked for if
 * IS_ROUTED. */
template <int THREADS, bool IS_ROUTED>
DEVICE void moe_quad_up_enter(const moe_launch &a, const moe_pair &pair, u32x4 *lds,
			      const moe_quad_routed<THREADS> &r, float *logits,
			      const moe_choice &choice)
{
	if constexpr (IS_ROUTED) {
		float scale = moe_quad_routed_logits<THREADS>(a, r, logits, choice.keys);
		moe_pick_begin<THREADS, IS_ROUTED>(a, pair, logits, choice);
		quad_zeros(lds);
		moe_quad_routed_x<THREADS>(a, r, scale, [&](int32_t p, u32x4 v) {
			lds[QUAD_ZEROS + quad_place(p)] = quad_piece(v);
		});
	} else {
		const uint16_t *x = a.x + pair.token * (size_t)a.dim;
		auto from_x = [&](int32_t p) { return (const u32x4 *)(x + (size_t)p * 8); };
		moe_quad_held held;
		moe_quad_hold<THREADS>((int32_t)thread_index(), a.dim / 8, from_x, &held);
		moe_pick_begin<THREADS, IS_ROUTED>(a, pair, nullptr, choice);
		moe_quad_stage<THREADS>(a.dim / 8, from_x, &held, lds);
	}
	group_barrier();
}

/* moe_slots_scale behind moe_route.hip, for a router of 16-bit numbers. The router comes to LDS
 * beside x: behind the norm one wave alone would wait for each of its loads. */
template <int THREADS>
DEVICE void moe_quad_routed_scale(const moe_launch &a, const moe_pair &pair,
				  const moe_quad_routed<THREADS> &r, u32x4 *lds)
{
	LDS(float, part, RMS_NORM_WAVES);
	int32_t at = (int32_t)thread_index(), n = a.dim / 8;
	const u32x4 *router = (const u32x4 *)a.shared_router.q;
	u32x4 *near = lds + n;
	u32x4 row[moe_quad_routed<THREADS>::HELD];
	UNROLL
	for (int i = 0; i < r.HELD; i++)
		row[i] = load_global<u32x4>(router + (at + i * THREADS < n ? at + i * THREADS : 0));
	float scale = rms_norm_scale<THREADS, true>(r.x, a.norm.x, a.dim, a.norm.eps, part);
	moe_quad_routed_x<THREADS>(a, r, scale, [&](int32_t p, u32x4 v) { lds[p] = v; });
	UNROLL
	for (int i = 0; i < r.HELD; i++)
		if (at + i * THREADS < n)
			near[at + i * THREADS] = row[i];
	for (int32_t p = at + r.HELD * THREADS; p < n; p += THREADS)
		near[p] = load_global<u32x4>(router + p);
	group_barrier();
	if (wave_index() != 0)
		return;
	float dot = a.shared_router.format == WEIGHT_F16
			    ? moe_slots_dot_near<WEIGHT_F16>(near, a.dim, (const uint16_t *)lds)
			    : moe_slots_dot_near<WEIGHT_BF16>(near, a.dim, (const uint16_t *)lds);
	if (lane_index() == 0)
		a.shared_scale[pair.token] = moe_sigmoid(dot);
}

/* Work that a token needs once; see moe_pick_once. */
template <int THREADS, bool IS_ROUTED>
DEVICE void moe_quad_up_once(const moe_launch &a, const moe_pair &pair, u32x4 *lds,
			     const moe_quad_routed<THREADS> &r, float *logits,
			     const moe_choice &choice)
{
	if constexpr (IS_ROUTED) {
		if (pair.is_shared && a.shared_router.format != WEIGHT_F32) {
			moe_quad_routed_scale<THREADS>(a, pair, r, lds);
			return;
		}
		float scale = moe_quad_routed_logits<THREADS>(a, r, logits, choice.keys);
		moe_quad_routed_x<THREADS>(a, r, scale, [&](int32_t p, u32x4 v) {
			lds[p] = v;
			if (pair.slot == 0)
				((u32x4 *)a.norm.y)[p] = v;
		});
		group_barrier();
		moe_pick_once<THREADS, IS_ROUTED>(a, pair, (const uint16_t *)lds, logits, choice);
	} else {
		const uint16_t *x = a.x + pair.token * (size_t)a.dim;
		moe_pick_once<THREADS, IS_ROUTED>(a, pair, x, nullptr, choice);
	}
}

/* Compute blocks `block`, block + up_step, … of a pair's rows; choice: LDS. A block's first
 * weights are on their way while the block before is reduced. */
template <int SPLIT, int ROWS, int UNR, bool GOES_ON, int KIND, bool IS_ROUTED>
DEVICE void moe_quad_up_rows(const moe_launch &a, moe_pair pair, int32_t block, u32x4 *lds,
			     const moe_quad_routed<SPLIT * ROWS * WAVE> &r, float *logits,
			     const moe_choice &choice)
{
	constexpr int32_t THREADS = SPLIT * ROWS * WAVE, PITCH = ROWS * QUAD_ROWS;
	float *sums = (float *)(lds + QUAD_ZEROS + a.dim / 8);
	moe_quad_up_enter<THREADS, IS_ROUTED>(a, pair, lds, r, logits, choice);
	pair = moe_pick_end(a, choice, pair);

	int32_t wave = (int32_t)wave_index();
	moe_quad_job<UNR, KIND> job;
	job.rows.shift = a.up_shift;
	job.rows.is_bf16 = a.is_bf16;
	job.part = moe_quad_part_of<SPLIT>(a.dim, wave % SPLIT);
	moe_quad_up_begin<SPLIT, ROWS>(a, pair, block, &job);
	ONE_BY_ONE
	for (;;) {
		quad_sums<1> sum = {};
		moe_quad_sum<UNR, KIND>(job.rows, job.part.from, job.part.end, job.now,
					quad_inputs_of<1>(lds, a.dim / 8), &sum);
		if constexpr (IS_ROUTED && KIND == QUAD_G32)
			moe_quad_ahead<THREADS>(a, pair, block);
		int32_t next = block + a.up_step;
		bool goes_on = GOES_ON && next * ROWS * 8 < a.ffn;
		if (goes_on)
			moe_quad_up_begin<SPLIT, ROWS>(a, pair, next, &job);
		quad_put<1>(sum, PITCH, sums + wave % SPLIT * PITCH + wave / SPLIT * QUAD_ROWS);
		group_barrier();
		moe_quad_up_store<SPLIT, ROWS>(a, pair, block, sums);
		if (!goes_on)
			return;
		block = next;
		/* The other half: the next block's sums may come while these are read. */
		sums += (block / a.up_step & 1 ? 1 : -1) * SPLIT * PITCH;
	}
}

template <int SPLIT, int ROWS, int UNR, bool GOES_ON, int KIND, bool IS_ROUTED>
DEVICE void moe_quad_up_as(const moe_launch &a)
{
	constexpr int32_t THREADS = SPLIT * ROWS * WAVE;
	LDS_DYNAMIC(u32x4, lds);
	float *sums = (float *)(lds + QUAD_ZEROS + a.dim / 8);
	moe_choice choice = moe_choice_of((uint32_t *)(sums + 2 * SPLIT * ROWS * QUAD_ROWS),
					  a.shared, a.n_used);
	moe_quad_routed<THREADS> r;
	if constexpr (IS_ROUTED)
		moe_quad_routed_hold<THREADS>(a, &r); /* all else waits for this */
	moe_pair pair = IS_ROUTED ? moe_slot_at(a, 0, group_index_y(), false) : moe_pick_pair(a);
	float *logits = (float *)(choice.weight + a.n_used);
	int32_t block = (int32_t)group_index_x() - MOE_UP_FIRST(a);
	/* The order of the two matters to compilers: nvcc spills half as many registers of rows one
	 * way round, and clang needs fewer scalar registers the other. */
#ifdef DIALECT_LACKS_DOT2
	if (block < 0) {
		moe_quad_up_once<THREADS, IS_ROUTED>(a, pair, lds, r, logits, choice);
		return;
	}
#endif
	if (block >= 0)
		moe_quad_up_rows<SPLIT, ROWS, UNR, GOES_ON, KIND, IS_ROUTED>(a, pair, block, lds,
									     r, logits, choice);
	else
		moe_quad_up_once<THREADS, IS_ROUTED>(a, pair, lds, r, logits, choice);
}

template <int SPLIT, int ROWS, int UNR, bool GOES_ON, int KIND>
DEVICE void moe_quad_up(const moe_launch &a)
{
	moe_quad_up_as<SPLIT, ROWS, UNR, GOES_ON, KIND, false>(a);
}

/* For one token behind moe_route.hip. */
template <int SPLIT, int ROWS, int UNR, bool GOES_ON, int KIND>
DEVICE void moe_quad_routed_up(const moe_launch &a)
{
	moe_quad_up_as<SPLIT, ROWS, UNR, GOES_ON, KIND, true>(a);
}

template <int SPLIT, int UNR, int KIND>
DEVICE void moe_quad_begin(const moe_launch &a, const moe_pair &p, int32_t unit, int32_t d0,
			   moe_quad_job<UNR, KIND> *j)
{
	weight_view w = moe_quad_view<KIND>(a, p, MOE_DOWN);
	int32_t g = (int32_t)lane_index() / 4, groups = moe_quad_groups(a.ffn, a.down_shift);
	j->rows.shift = a.down_shift;
	j->rows.is_bf16 = a.is_bf16;
	moe_quad_row<KIND>(w, d0 + g, groups, 0, &j->rows);
	moe_quad_row<KIND>(w, d0 + g + 8, groups, 1, &j->rows);
	j->part = moe_quad_part_of<SPLIT>(a.ffn, unit % SPLIT);
	if (j->part.from < j->part.end)
		moe_quad_load<UNR, KIND>(j->rows, j->part.from, j->part.end, j->now);
}

/* From the waves' sums (n_slots, SPLIT, 16), compute each slot's part of y: (n_slots,
 * 16). */
template <int SPLIT, int THREADS>
DEVICE void moe_quad_parts(const moe_launch &a, size_t t, int32_t d0, const float *sums,
			   const float *weight, float *part)
{
	int32_t i = (int32_t)thread_index();
	for (; i < a.n_slots * QUAD_ROWS; i += THREADS) {
		int32_t s = i / QUAD_ROWS, row = i % QUAD_ROWS;
		float x = 0;
		UNROLL
		for (int j = 0; j < SPLIT; j++)
			x += sums[(s * SPLIT + j) * QUAD_ROWS + row];
		bool has_bias = a.down_bias && d0 + row < a.dim;
		moe_pair p = moe_slot_at(a, t, (size_t)s, has_bias);
		part[i] = moe_slots_part(a, p, weight[s], d0 + row, x);
	}
}

/* Write the sums of the wave's units of rows [d0, d0 + 16) to LDS. The job has the first one. */
template <int SPLIT, int WAVES, int UNR, int KIND>
DEVICE void moe_quad_units(const moe_launch &a, size_t t, int32_t d0, const u32x4 *lds,
			   float *sums, moe_quad_job<UNR, KIND> *job)
{
	int32_t unit = (int32_t)wave_index(), n_pieces = a.ffn / 8;
	while (unit < a.n_slots * SPLIT) {
		quad_inputs<1> x = quad_inputs_of<1>(lds, n_pieces);
		x.p[0] += x.stride ? unit / SPLIT * n_pieces : 0;
		quad_sums<1> sum = {};
		moe_quad_sum<UNR, KIND>(job->rows, job->part.from, job->part.end, job->now, x,
					&sum);
		quad_put<1>(sum, QUAD_ROWS, sums + unit * QUAD_ROWS);
		unit += WAVES;
		if (unit < a.n_slots * SPLIT)
			moe_quad_begin<SPLIT, UNR, KIND>(
				a, moe_slot_at(a, t, (size_t)(unit / SPLIT)), unit, d0, job);
	}
}

/* Compute rows [d0, d0 + 16) of a token, and those that lie down_step such blocks on. */
template <int SPLIT, int WAVES, int UNR, bool GOES_ON, int KIND>
DEVICE void moe_quad_down(const moe_launch &a)
{
	constexpr int32_t THREADS = WAVES * WAVE;
	LDS_DYNAMIC(u32x4, lds);
	int32_t n_pieces = a.ffn / 8, n_units = a.n_slots * SPLIT, at = (int32_t)thread_index();
	int32_t d0 = (int32_t)group_index_x() * QUAD_ROWS, unit = (int32_t)wave_index();
	float *sums = (float *)(lds + QUAD_ZEROS + a.n_slots * n_pieces);
	float *part = sums + n_units * QUAD_ROWS, *weights = part + a.n_slots * QUAD_ROWS;
	size_t t = group_index_y();
	int32_t e = (int32_t)group_index_x() * THREADS + at;
	if (a.sums && e < a.shared)
		a.sums[e] = 0;
	/* Load first what the weights' addresses depend on; load everything else before
	 * the weights. */
	moe_pair p = moe_slot_at(a, t, (size_t)(unit / SPLIT), unit < n_units);
	auto from_h = [&](int32_t i) {
		int32_t routed = a.n_used * n_pieces;
		return i < routed ? (const u32x4 *)moe_slot_h(a, t, 0) + i
				  : (const u32x4 *)(a.shared_h + t * (size_t)a.ffn) + (i - routed);
	};
	moe_quad_held held;
	moe_quad_hold<THREADS>(at, a.n_slots * n_pieces, from_h, &held);
	float y = moe_slots_y(a, t, d0, QUAD_ROWS);
	float weight = at < a.n_slots ? moe_slot_weight(a, t, (size_t)at) : 0;
	moe_quad_job<UNR, KIND> job;
	if (unit < n_units)
		moe_quad_begin<SPLIT, UNR, KIND>(a, p, unit, d0, &job);
	moe_quad_stage<THREADS>(a.n_slots * n_pieces, from_h, &held, lds);
	if (at < a.n_slots)
		weights[at] = weight;
	group_barrier();
	ONE_BY_ONE
	for (;;) {
		moe_quad_units<SPLIT, WAVES, UNR, KIND>(a, t, d0, lds, sums, &job);
		int32_t next = d0 + a.down_step * QUAD_ROWS;
		bool goes_on = GOES_ON && next < a.dim;
		float next_y = goes_on ? moe_slots_y(a, t, next, QUAD_ROWS) : 0;
		if (goes_on && unit < n_units)
			moe_quad_begin<SPLIT, UNR, KIND>(a, p, unit, next, &job);
		group_barrier();
		moe_quad_parts<SPLIT, THREADS>(a, t, d0, sums, weights, part);
		group_barrier();
		moe_slots_add(a, t, d0, QUAD_ROWS, part, y);
		if (!goes_on)
			return;
		d0 = next;
		y = next_y;
	}
}

#define MOE_QUAD(op, name, a1, a2, a3, room, goes_on, kind, word) \
	KERNEL_OF_MANY(MOE_QUAD_##op##_THREADS(a1, a2), room) \
	void moe_quad_##op##_##name##word##_kernel(moe_launch a) \
	{ \
		moe_quad_##op<a1, a2, a3, goes_on, kind>(a); \
	}
#define MOE_QUAD_up_THREADS(split, rows) ((split) * (rows) * WAVE)
#define MOE_QUAD_routed_up_THREADS MOE_QUAD_up_THREADS
#define MOE_QUAD_down_THREADS(split, waves) ((waves) * WAVE)
#define MOE_QUADS(op, name, a1, a2, a3, room, goes_on) \
	MOE_QUAD(op, name, a1, a2, a3, room, goes_on, QUAD_G32, ) \
	MOE_QUAD(op, name, a1, a2, (a3 > 3 ? 3 : a3), 1, goes_on, QUAD_ANY, _any) \
	MOE_QUAD(op, name, a1, a2, (a3 > 3 ? 3 : a3), 1, goes_on, QUAD_ZERO, _zero)
#define UP(name, split, rows, unr, room, goes_on) \
	MOE_QUADS(up, name, split, rows, unr, room, goes_on) \
	ROUTED_##goes_on(name, split, rows, unr, room)
/* The rows that are used unless another was measured. */
#define ROUTED_true(name, split, rows, unr, room) \
	MOE_QUADS(routed_up, name, split, rows, unr, room, false)
#define ROUTED_false(...)
#define DOWN(name, split, waves, unr, room, goes_on) \
	MOE_QUADS(down, name, split, waves, unr, room, goes_on)
#include "kernels/moe/moe_quad.def"
#undef UP
#undef ROUTED_true
#undef ROUTED_false
#undef DOWN
#undef MOE_QUADS
#undef MOE_QUAD
