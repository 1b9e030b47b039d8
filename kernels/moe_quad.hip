/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/moe_experts.h for int4 experts and few tokens, in two launches, the
 *           choice of experts (kernels/moe_router.h) in the first where asked for
 * LAYOUT    kernels/moe_launch.h; weights, and activations in LDS, as quad.h tells
 * GEOMETRY  up: (F over 8 ROWS, pairs): row g of a lane is of gate, row g + 8 the same of
 *           up. Each workgroup chooses for itself, from the logits; the first of a token
 *           writes the choice for down. down: (D over 16, T): SPLIT waves a slot; the
 *           slots' sums are added in their order. LDS: QUAD_LDS and MOE_CHOICE_LDS;
 *           MOE_QUAD_DOWN_LDS
 * PRECISION as linear_quad_sum.h; h rounded to f16; the sum over slots in f32, in order
 * ROOFLINE  as moe_int4.hip; what decides is how many loads wait for each other: logits,
 *           the expert's row of the table, its weights; down: id, table, weights
 * TRIED     (on an NVIDIA H200, Qwen3-30B-A3B, us) up in workgroups of 16 rows, two rounds
 *           of them on a card: 14.9 where those of 32 take 11.6; of 8: 16.4; the choice
 *           left out: 10.3; weights found by the table: 12.1
 * SEE       kernels/moe_experts_ref.c
 */
#include "kernels/dequant.h"
#include "kernels/linear_int4_words.h"
#include "kernels/moe_act.h"
#include "kernels/moe_choose.h"
#include "kernels/quad.h"

/* Row `row` of w, or its last, as row y of a lane. */
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

/* The expert's weight of one part: by the way from one to the next where that is the
 * same, for a look into the table is a load that the weights wait for. */
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

/* x (K) of a token to LDS, as the first. */
template <int THREADS>
DEVICE void moe_quad_stage(const uint16_t *x, int32_t k, u32x4 *to)
{
	for (int32_t p = (int32_t)thread_index(); p < k / 8; p += THREADS)
		to[quad_place(p)] = quad_piece(*(const u32x4 *)(x + (size_t)p * 8));
}

DEVICE float moe_quad_router_dot(const weight_view &router, const uint16_t *x)
{
	if (router.format == WEIGHT_F32)
		return row_dot<WEIGHT_F32>(&router, 0, x);
	if (router.format == WEIGHT_F16)
		return row_dot<WEIGHT_F16>(&router, 0, x);
	return row_dot<WEIGHT_BF16>(&router, 0, x);
}

/* The pair, its expert chosen here where there are only logits. */
template <int THREADS>
DEVICE moe_pair moe_quad_pair(const moe_launch &a, float first, uint32_t *lds)
{
	LDS(uint32_t, least, 1);
	if (!a.logits)
		return moe_pair_at(a, group_index_y());
	size_t n = (size_t)a.n_slots, u = (size_t)a.n_used, e = (size_t)a.shared;
	size_t token = group_index_y() / n, slot = group_index_y() % n;
	moe_choice c = moe_choice_of(lds, a.shared, a.n_used);
	const float *logits = a.logits + token * e;
	moe_choose<THREADS>(a.rule, logits, first, (uint32_t)e, (uint32_t)u, c, least);
	if (slot == 0 && group_index_x() == 0 && wave_index() == 0)
		moe_choose_weigh(a.rule, logits, (uint32_t)e, (uint32_t)u, c,
				 (int32_t *)a.id + token * u, (float *)a.weight + token * u);
	moe_pair p;
	p.token = token;
	p.is_shared = slot == u;
	p.expert = p.is_shared ? e : c.id[slot];
	p.h = p.is_shared ? a.shared_h + token * (size_t)a.ffn
			  : a.h + (token * u + slot) * (size_t)a.ffn;
	return p;
}

template <int SPLIT, int ROWS, int UNR, int KIND> DEVICE void moe_quad_up(const moe_launch &a)
{
	constexpr int32_t THREADS = SPLIT * ROWS * WAVE, PITCH = ROWS * QUAD_ROWS;
	LDS_DYNAMIC(u32x4, lds);
	float *sums = (float *)(lds + 1 + a.dim / 8);
	size_t token = group_index_y() / (size_t)a.n_slots;
	const uint16_t *x = a.x + token * (size_t)a.dim;
	float logit = 0;
	if (a.logits)
		logit = moe_choose_first(a.logits + token * (size_t)a.shared,
					 (uint32_t)a.shared);
	if (thread_index() == 0)
		lds[0] = u32x4{};
	moe_quad_stage<THREADS>(x, a.dim, lds + 1);
	moe_pair pair = moe_quad_pair<THREADS>(a, logit, (uint32_t *)(sums + SPLIT * PITCH));

	int32_t wave = (int32_t)wave_index(), set = wave / SPLIT, g = (int32_t)lane_index() / 4;
	int32_t f0 = (int32_t)group_index_x() * ROWS * 8, groups = moe_quad_groups(a.dim, a.up_shift);
	quad_rows rows;
	rows.shift = a.up_shift;
	rows.is_bf16 = a.is_bf16;
	moe_quad_row<KIND>(moe_quad_view<KIND>(a, pair, MOE_GATE), f0 + set * 8 + g, groups, 0, &rows);
	moe_quad_row<KIND>(moe_quad_view<KIND>(a, pair, MOE_UP), f0 + set * 8 + g, groups, 1, &rows);
	int32_t each = (a.dim / QUAD_STEP + SPLIT - 1) / SPLIT * QUAD_STEP;
	int32_t from = wave % SPLIT * each, end = from + each < a.dim ? from + each : a.dim;
	quad_step<KIND> first[UNR];
	if (from < end)
		quad_load_all<UNR, KIND>(rows, from, end, first);
	group_barrier();
	quad_sums<1> sum = {};
	if (from < end)
		quad_run<1, UNR, KIND>(rows, from, end, first,
				       quad_inputs_of<1>(lds, a.dim / 8), &sum);
	quad_put<1>(sum, PITCH, sums + wave % SPLIT * PITCH + set * QUAD_ROWS);
	group_barrier();
	int32_t i = (int32_t)thread_index();
	if (i < ROWS * 8 && f0 + i < a.ffn) {
		float gate = 0, up = 0;
		const float *at = sums + i / 8 * QUAD_ROWS + i % 8;
		UNROLL
		for (int s = 0; s < SPLIT; s++) {
			gate += at[s * PITCH];
			up += at[s * PITCH + 8];
		}
		pair.h[f0 + i] = moe_act(a, pair, (size_t)(f0 + i), gate, up);
	}
	/* The shared expert's own weight: once a token. */
	if (pair.is_shared && a.shared_router.q && group_index_x() == 0 && wave == 0) {
		float dot = moe_quad_router_dot(a.shared_router, x);
		if (lane_index() == 0)
			a.shared_scale[pair.token] = moe_sigmoid(dot);
	}
}

/* Rows [d0, d0 + 16) of one slot's down, part `part` of SPLIT. */
template <int SPLIT, int UNR, int KIND> struct moe_quad_job {
	quad_rows rows;
	quad_step<KIND> first[UNR];
	int32_t from, end;
};

template <int SPLIT, int UNR, int KIND>
DEVICE void moe_quad_begin(const moe_launch &a, int32_t unit, int32_t d0,
			   moe_quad_job<SPLIT, UNR, KIND> *j)
{
	size_t p = group_index_y() * (size_t)a.n_slots + (size_t)(unit / SPLIT);
	weight_view w = moe_quad_view<KIND>(a, moe_pair_at(a, p), MOE_DOWN);
	int32_t g = (int32_t)lane_index() / 4, groups = moe_quad_groups(a.ffn, a.down_shift);
	j->rows.shift = a.down_shift;
	j->rows.is_bf16 = a.is_bf16;
	moe_quad_row<KIND>(w, d0 + g, groups, 0, &j->rows);
	moe_quad_row<KIND>(w, d0 + g + 8, groups, 1, &j->rows);
	int32_t each = (a.ffn / QUAD_STEP + SPLIT - 1) / SPLIT * QUAD_STEP;
	j->from = unit % SPLIT * each;
	j->end = j->from + each < a.ffn ? j->from + each : a.ffn;
	if (j->from < j->end)
		quad_load_all<UNR, KIND>(j->rows, j->from, j->end, j->first);
}

template <int SPLIT, int WAVES, int UNR, int KIND> DEVICE void moe_quad_down(const moe_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	int32_t n_pieces = a.ffn / 8, n_units = a.n_slots * SPLIT;
	int32_t d0 = (int32_t)group_index_x() * QUAD_ROWS, unit = (int32_t)wave_index();
	float *sums = (float *)(lds + 1 + a.n_slots * n_pieces);
	size_t t = group_index_y(), first = t * (size_t)a.n_slots;
	moe_quad_job<SPLIT, UNR, KIND> job;
	if (unit < n_units)
		moe_quad_begin<SPLIT, UNR, KIND>(a, unit, d0, &job);
	if (thread_index() == 0)
		lds[0] = u32x4{};
	for (int32_t s = 0; s < a.n_slots; s++) {
		const uint16_t *h = s == a.n_used
					    ? a.shared_h + t * (size_t)a.ffn
					    : a.h + (t * (size_t)a.n_used + (size_t)s) * (size_t)a.ffn;
		moe_quad_stage<WAVES * WAVE>(h, a.ffn, lds + 1 + s * n_pieces);
	}
	group_barrier();
	for (; unit < n_units; unit += WAVES) {
		if (unit >= WAVES)
			moe_quad_begin<SPLIT, UNR, KIND>(a, unit, d0, &job);
		quad_inputs<1> x = quad_inputs_of<1>(lds, n_pieces);
		x.p[0] += x.stride ? unit / SPLIT * n_pieces : 0;
		quad_sums<1> sum = {};
		if (job.from < job.end)
			quad_run<1, UNR, KIND>(job.rows, job.from, job.end, job.first, x, &sum);
		quad_put<1>(sum, QUAD_ROWS, sums + unit * QUAD_ROWS);
	}
	group_barrier();
	int32_t row = (int32_t)thread_index();
	if (row >= QUAD_ROWS || d0 + row >= a.dim)
		return;
	float *y = a.y + t * (size_t)a.dim + (size_t)(d0 + row), all = *y;
	for (int32_t s = 0; s < a.n_slots; s++) {
		float x = 0;
		UNROLL
		for (int i = 0; i < SPLIT; i++)
			x += sums[(s * SPLIT + i) * QUAD_ROWS + row];
		if (a.down_bias && s != a.n_used)
			x += a.down_bias[moe_pair_at(a, first + (size_t)s).expert * (size_t)a.dim +
					 (size_t)(d0 + row)];
		all += x * moe_pair_weight(a, first + (size_t)s);
	}
	*y = all;
}

#define MOE_QUAD(op, name, a1, a2, a3, kind, word) \
	KERNEL(MOE_QUAD_##op##_THREADS(a1, a2)) \
	void moe_quad_##op##_##name##word##_kernel(moe_launch a) \
	{ \
		moe_quad_##op<a1, a2, a3, kind>(a); \
	}
#define MOE_QUAD_up_THREADS(split, rows) ((split) * (rows) * WAVE)
#define MOE_QUAD_down_THREADS(split, waves) ((waves) * WAVE)
#define MOE_QUADS(op, name, a1, a2, a3) \
	MOE_QUAD(op, name, a1, a2, a3, QUAD_G32, ) \
	MOE_QUAD(op, name, a1, a2, a3, QUAD_ANY, _any) \
	MOE_QUAD(op, name, a1, a2, (a3 > 2 ? 2 : a3), QUAD_ZERO, _zero)
#define UP(name, split, rows, unr) MOE_QUADS(up, name, split, rows, unr)
#define DOWN(name, split, waves, unr) MOE_QUADS(down, name, split, waves, unr)
#include "kernels/moe_quad.def"
#undef UP
#undef DOWN
#undef MOE_QUADS
#undef MOE_QUAD
