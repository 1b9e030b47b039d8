/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_router.h
 * LAYOUT    x (T, D) f16; router (E, D) f32, f16 or bf16; logits (T, E) f32; id, weight
 *           (T, U); arrived (T), zero before and after
 * GEOMETRY  workgroups of four waves: (E over 4, T), one expert a wave. x goes through
 *           LDS, and is normalised on the way if asked for. The workgroup that finishes
 *           last has all logits and chooses (moe_choose.h). LDS: MOE_ROUTER_LDS.
 *           Prompts with a router in f16 or bf16 take linear_tile.hip for the logits. Those in
 *           f32 take moe_router_tile: (E over 16, T over 8), four experts a wave and eight tokens
 *           a workgroup, so 16 rows are read once for eight tokens. Each sum has the order that
 *           it has in moe_router. Then moe_choose: (T), a wave a token. LDS: MOE_CHOICE_LDS
 *           With in_eights the products are summed before the norm's scale is known
 *           (moe_sum.h), so that moe_route.hip can do the same in parts. x in LDS is then f32
 * PRECISION logits in f32; softmax by exp2 of differences to the largest
 * ROOFLINE  at E = 128, D = 2048, bf16: 512 KiB, 32 workgroups. With so few waves latency
 *           decides, so all loads of a row are issued at once, before x has arrived
 * TRIED     one thread chooses while others wait: 5.7 times slower in others'
 *           measurements. One wave takes the best U times: 9.3 us; counting the better
 *           ones takes 7 (E = 128, U = 8, an NVIDIA H200). A second launch for few tokens: it
 *           exceeds the launch budget (kernels/README.md). moe_router for prompts too: it reads
 *           the router once a token, 4 GB for 4,096 tokens at E = 256. There moe_router_tile for
 *           bf16, with the choice by the last workgroup: 1,029 us predicted for gfx1151 at E = 256
 *           and 4,096 tokens, of it 515 to issue; tiles of linear_tile.hip take 274 and moe_choose
 *           27. moe_choose by four waves a token, counting: 54 at E = 128 and 2,048 tokens
 * SEE       kernels/ops/moe_router_ref.c
 */
#include "kernels/weights/dequant.h"
#include "kernels/moe/moe_choose.h"
#include "kernels/moe/moe_sum.h"
#include "kernels/rows/rms_norm_row.h"

enum { MOE_ROUTER_THREADS = MOE_ROUTER_WAVES * WAVE };

/* sum plus the product of a piece of a row and eight of x. */
template <int format>
DEVICE float moe_router_dot8(const dot8_piece<format> &w, u32x4 x, float sum)
{
	UNROLL
	for (int i = 0; i < 8; i++)
		sum = fma_f32(dot8_at<format>(w, i),
			      f16_to_f32((uint16_t)(x[i / 2] >> i % 2 * 16)), sum);
	return sum;
}

/* The address of elements [at, at + 8) of a row. */
template <int format> DEVICE const char *moe_router_at(const char *row, int32_t at)
{
	return row + (size_t)at * (format == WEIGHT_F32 ? 4 : 2);
}

/* Pieces in flight a lane. */
template <int format> struct moe_router_pieces {
	enum { AHEAD = format == WEIGHT_F32 ? 4 : 8, STEP = AHEAD * WAVE * 8 };
	dot8_piece<format> v[AHEAD];
};

/* Load pieces lane, lane + 32, … of a row from element `at` on; past K: the last piece. */
template <int format>
DEVICE void moe_router_load(const weight_view &w, size_t row, int32_t at,
			    moe_router_pieces<format> *out)
{
	const char *q = (const char *)w.q + row * (size_t)w.pitch;
	UNROLL
	for (int j = 0; j < out->AHEAD; j++) {
		int32_t i = at + (j * WAVE + (int32_t)lane_index()) * 8;
		out->v[j] = dot8_load<format>(moe_router_at<format>(q, i < w.k ? i : w.k - 8));
	}
}

/* The logit of one expert for x (in LDS). `first`: the row's first pieces. K is a
 * multiple of 8. */
template <int format>
DEVICE float moe_router_dot(const weight_view &w, size_t row,
			    const moe_router_pieces<format> &first, const uint16_t *x)
{
	moe_router_pieces<format> now = first;
	float sum = 0;
	for (int32_t at = 0; at < w.k; at += now.STEP) {
		if (at)
			moe_router_load<format>(w, row, at, &now);
		UNROLL
		for (int j = 0; j < now.AHEAD; j++) {
			int32_t i = at + (j * WAVE + (int32_t)lane_index()) * 8;
			if (i < w.k)
				sum = moe_router_dot8<format>(now.v[j], *(const u32x4 *)(x + i),
							      sum);
		}
	}
	return wave_sum(sum);
}

/* Copy w x of token t to LDS, and write x normalised. Returns the norm's scale. */
DEVICE float moe_router_stage_eights(const moe_router_launch &a, size_t t, int32_t dim,
				     const rms_norm_held<MOE_ROUTER_THREADS> &held, float *to)
{
	LDS(float, part, RMS_NORM_WAVES);
	const float *from = a.norm.x + t * (size_t)dim;
	float scale = rms_norm_scale<MOE_ROUTER_THREADS, true>(held, from, dim, a.norm.eps, part);
	ONE_BY_ONE
	for (int32_t i = (int32_t)thread_index() * 8; i < dim; i += MOE_ROUTER_THREADS * 8) {
		rms_norm_8 x = rms_norm_load<true>(from, i, dim);
		rms_norm_8 w = rms_norm_load<true>(a.norm.weight, i, dim);
		UNROLL
		for (int j = 0; j < 8; j++)
			to[i + j] = rms_norm_at(x, j) * rms_norm_at(w, j);
		if (group_index_x() == 0)
			*(u32x4 *)(a.norm.y + t * (size_t)dim + i) = rms_norm_piece(x, w, scale);
	}
	return scale;
}

/* Like moe_router_dot, for w x in LDS (moe_sum.h). */
template <int format>
DEVICE uint64_t moe_router_eights(const weight_view &w, size_t row,
				  const moe_router_pieces<format> &first, const float *x)
{
	moe_router_pieces<format> now = first;
	uint64_t sum = 0;
	for (int32_t at = 0; at < w.k; at += now.STEP) {
		if (at)
			moe_router_load<format>(w, row, at, &now);
		UNROLL
		for (int j = 0; j < now.AHEAD; j++) {
			int32_t i = at + (j * WAVE + (int32_t)lane_index()) * 8;
			if (i < w.k)
				sum += moe_sum_eight<format>(now.v[j], x + i);
		}
	}
	return moe_sum_lanes(sum, WAVE);
}

/* Copy x of token t to LDS. `held`: its first pieces, if it must still be normalised. */
DEVICE void moe_router_stage(const moe_router_launch &a, size_t t, int32_t dim,
			     const rms_norm_held<MOE_ROUTER_THREADS> &held, uint16_t *to)
{
	LDS(float, part, RMS_NORM_WAVES);
	if (!a.norm.x) {
		const uint16_t *x = a.x + t * (size_t)dim;
		int32_t i = (int32_t)thread_index();
		for (; dim % 8 == 0 && i < dim / 8; i += MOE_ROUTER_THREADS)
			((u32x4 *)to)[i] = ((const u32x4 *)x)[i];
		for (; dim % 8 != 0 && i < dim; i += MOE_ROUTER_THREADS)
			to[i] = x[i];
		return;
	}
	const float *from = a.norm.x + t * (size_t)dim;
	float scale = rms_norm_scale<MOE_ROUTER_THREADS>(held, from, dim, a.norm.eps, part);
	int32_t i = (int32_t)thread_index() * 8;
	for (; i < dim; i += MOE_ROUTER_THREADS * 8) {
		u32x4 v = rms_norm_piece(rms_norm_load(from, i, dim),
					 rms_norm_load(a.norm.weight, i, dim), scale);
		*(u32x4 *)(to + i) = v;
		if (group_index_x() == 0)
			*(u32x4 *)(a.norm.y + t * (size_t)dim + i) = v;
	}
}

template <int format>
DEVICE void moe_router(const weight_view &router, const moe_router_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	LDS(uint32_t, before, 1);
	constexpr bool IS_HALF = format != WEIGHT_F32;
	uint16_t *x = (uint16_t *)lds;
	size_t t = group_index_y(), n = (size_t)router.n;
	size_t e = group_index_x() * MOE_ROUTER_WAVES + wave_index();
	size_t row = e < n ? e : n - 1;
	bool is_fast = router.k % 8 == 0, in_eights = IS_HALF && a.in_eights;
	moe_router_pieces<format> first = {};
	rms_norm_held<MOE_ROUTER_THREADS> held = {};
	if (a.norm.x)
		rms_norm_hold<MOE_ROUTER_THREADS>(a.norm.x + t * (size_t)router.k, router.k,
						  &held);
	if (is_fast)
		moe_router_load<format>(router, row, 0, &first);
	float scale = 0, logit = 0;
	if (in_eights)
		scale = moe_router_stage_eights(a, t, router.k, held, (float *)lds);
	else
		moe_router_stage(a, t, router.k, held, x);
	group_barrier();
	if (in_eights)
		logit = moe_sum_logit(moe_router_eights<format>(router, row, first, (float *)lds),
				      scale, a.rule.logit_bias, row);
	else if (is_fast)
		logit = moe_router_dot<format>(router, row, first, x);
	else
		logit = row_dot<format>(&router, row, x);
	if (!in_eights && a.rule.logit_bias)
		logit += a.rule.logit_bias[row];
	if (lane_index() == 0 && e < n)
		a.logits[t * n + e] = logit;
	uint32_t place = group_arrive(&a.arrived[t], before);
	if (place + 1 != (n + MOE_ROUTER_WAVES - 1) / MOE_ROUTER_WAVES)
		return;
	group_barrier(); /* all threads have read `before` */
	if (thread_index() == 0)
		a.arrived[t] = 0;
	int32_t n_pieces = (router.k * (in_eights ? 4 : 2) + 15) / 16;
	moe_choice c = moe_choice_of((uint32_t *)(lds + n_pieces), router.n, a.n_used);
	moe_choose<MOE_ROUTER_THREADS>(a.rule, a.logits + t * n,
				       moe_choose_first(a.logits + t * n, (uint32_t)n),
				       (uint32_t)n, (uint32_t)a.n_used, c, before,
				       moe_choose_fixed(a.rule, t, (uint32_t)a.n_used));
	if (wave_index() == 0)
		moe_choose_weigh(a.rule, a.logits + t * n, (uint32_t)n, (uint32_t)a.n_used, c,
				 a.id + t * (size_t)a.n_used, a.weight + t * (size_t)a.n_used);
}

/* --- prompts ------------------------------------------------------------------------ */

/* Copy elements [at, at + MOE_ROUTER_TILE_K) of the workgroup's tokens to LDS. Tokens past
 * the end repeat the last one. K is a multiple of 8. */
DEVICE void moe_router_tile_stage(const moe_router_launch &a, int32_t k, int32_t at, u32x4 *to)
{
	constexpr int32_t PIECES = MOE_ROUTER_TILE_K / 8;
	UNROLL
	for (int32_t n = 0; n < MOE_ROUTER_TILE_TOK; n++) {
		int32_t t = (int32_t)group_index_y() * MOE_ROUTER_TILE_TOK + n;
		const uint16_t *x = a.x + (size_t)(t < a.n_tok ? t : a.n_tok - 1) * (size_t)k;
		UNROLL
		for (int32_t j = 0; j < PIECES; j += MOE_ROUTER_THREADS) {
			int32_t p = j + (int32_t)thread_index(), i = at + p * 8;
			to[n * PIECES + p] = *(const u32x4 *)(x + (i < k ? i : k - 8));
		}
	}
}

/* sum[e][t] += the products of one piece of the wave's rows and all tokens. x: this lane's
 * piece of token 0. */
DEVICE void moe_router_tile_piece(const dot8_piece<WEIGHT_F32> *w, const u32x4 *x,
				  float (*sum)[MOE_ROUTER_TILE_TOK])
{
	UNROLL
	for (int t = 0; t < MOE_ROUTER_TILE_TOK; t++) {
		u32x4 v = x[t * (MOE_ROUTER_TILE_K / 8)];
		UNROLL
		for (int e = 0; e < MOE_ROUTER_TILE_EACH; e++)
			sum[e][t] = moe_router_dot8<WEIGHT_F32>(w[e], v, sum[e][t]);
	}
}

/* The sums of a lane over all of K, for the wave's experts from `first` on. */
DEVICE void moe_router_tile_sum(const weight_view &w, const moe_router_launch &a, int32_t first,
				u32x4 *lds, float (*sum)[MOE_ROUTER_TILE_TOK])
{
	const char *row[MOE_ROUTER_TILE_EACH];
	UNROLL
	for (int32_t e = 0; e < MOE_ROUTER_TILE_EACH; e++) {
		int32_t n = first + e < w.n ? first + e : w.n - 1;
		row[e] = (const char *)w.q + (size_t)n * (size_t)w.pitch;
	}
	for (int32_t at = 0; at < w.k; at += MOE_ROUTER_TILE_K) {
		if (at)
			group_barrier(); /* the last elements have been used */
		moe_router_tile_stage(a, w.k, at, lds);
		group_barrier();
		for (int32_t j = (int32_t)lane_index(); j < MOE_ROUTER_TILE_K / 8; j += WAVE) {
			dot8_piece<WEIGHT_F32> piece[MOE_ROUTER_TILE_EACH];
			if (at + j * 8 >= w.k)
				break;
			UNROLL
			for (int e = 0; e < MOE_ROUTER_TILE_EACH; e++)
				piece[e] = dot8_load<WEIGHT_F32>(
					moe_router_at<WEIGHT_F32>(row[e], at + j * 8));
			moe_router_tile_piece(piece, lds + j, sum);
		}
	}
}

/* Add up the lanes. Lane e * MOE_ROUTER_TILE_TOK + t stores the logit of expert e and
 * token t. */
DEVICE void moe_router_tile_store(const weight_view &w, const moe_router_launch &a,
				  int32_t first, float (*sum)[MOE_ROUTER_TILE_TOK])
{
	constexpr int32_t TOK = MOE_ROUTER_TILE_TOK;
	int32_t lane = (int32_t)lane_index();
	float mine = 0;
	UNROLL
	for (int e = 0; e < MOE_ROUTER_TILE_EACH; e++)
		UNROLL
		for (int t = 0; t < TOK; t++) {
			float all = wave_sum(sum[e][t]);
			mine = lane == e * TOK + t ? all : mine;
		}
	int32_t e = first + lane / TOK, t = (int32_t)group_index_y() * TOK + lane % TOK;
	if (e < w.n && t < a.n_tok)
		a.logits[(size_t)t * (size_t)w.n + (size_t)e] =
			a.rule.logit_bias ? mine + a.rule.logit_bias[e] : mine;
}

KERNEL(MOE_ROUTER_THREADS)
void moe_router_tile_f32_kernel(weight_view router, moe_router_launch a)
{
	LDS_DYNAMIC(u32x4, lds);
	constexpr int32_t EACH = MOE_ROUTER_TILE_EACH, ROWS = MOE_ROUTER_WAVES * EACH;
	int32_t first = (int32_t)group_index_x() * ROWS + (int32_t)wave_index() * EACH;
	float sum[EACH][MOE_ROUTER_TILE_TOK] = {};
	moe_router_tile_sum(router, a, first, lds, sum);
	moe_router_tile_store(router, a, first, sum);
}

/* The best of keys [from, to) that come behind expert *id with *key: lower ones, and equal ones
 * of a higher id. */
DEVICE void moe_choose_next(const uint32_t *keys, uint32_t from, uint32_t to, uint32_t *key,
			    uint32_t *id)
{
	uint32_t best = KEY_TAKEN, at = to;
	for (uint32_t e = from; e < to; e++) {
		uint32_t k = keys[e];
		bool is_behind = k < *key || (k == *key && e > *id);
		at = is_behind && k > best ? e : at;
		best = is_behind && k > best ? k : best;
	}
	*key = best;
	*id = at;
}

/* Like moe_choose, by one wave, which takes the best expert n_used times. A lane has neighbouring
 * experts, so of equals the first lane's is the lowest. This takes longer for one token, and a
 * tenth of the instructions for many. */
DEVICE void moe_choose_wave(const moe_router_rule &rule, const float *logits, uint32_t n_experts,
			    uint32_t n_used, const moe_choice &c, const int32_t *fixed)
{
	uint32_t lane = lane_index(), each = (n_experts + WAVE - 1) / WAVE, key = ~0u, id = 0;
	uint32_t from = lane * each < n_experts ? lane * each : n_experts;
	uint32_t to = from + each < n_experts ? from + each : n_experts;
	moe_softmax all = {};
	if (fixed) {
		for (uint32_t u = lane; u < n_used; u += WAVE)
			c.id[u] = load_global<uint32_t>(fixed + u);
		wave_barrier();
		return;
	}
	if (rule.is_shifted)
		all = moe_choose_softmax(logits, n_experts);
	for (uint32_t e = lane; e < n_experts; e += WAVE)
		c.keys[e] = moe_choose_by(rule, all, logits[e], e);
	wave_barrier();
	if (moe_choose_has_groups(rule)) {
		moe_choose_groups(rule, n_experts, c.keys, c.more);
		wave_barrier();
	}
	moe_choose_next(c.keys, from, to, &key, &id);
	ONE_BY_ONE
	for (uint32_t u = 0; u < n_used; u++) {
		uint32_t most = wave_max(key), all_most = wave_ballot(key == most);
		if (lane == bit_count((all_most & (0u - all_most)) - 1)) { /* the first of them */
			c.id[u] = id;
			moe_choose_next(c.keys, from, to, &key, &id);
		}
	}
	wave_barrier();
}

KERNEL(WAVE)
void moe_choose_kernel(weight_view router, moe_router_launch a)
{
	LDS_DYNAMIC(u32x4, lds);
	uint32_t n = (uint32_t)router.n, n_used = (uint32_t)a.n_used;
	size_t t = group_index_x();
	const float *logits = a.logits + t * n;
	moe_choice c = moe_choice_of((uint32_t *)lds, router.n, a.n_used);
	moe_choose_wave(a.rule, logits, n, n_used, c, moe_choose_fixed(a.rule, t, n_used));
	moe_choose_weigh(a.rule, logits, n, n_used, c, a.id + t * n_used, a.weight + t * n_used);
}

#define MOE_ROUTER(name, format) \
	KERNEL(MOE_ROUTER_THREADS) \
	void moe_router_##name##_kernel(weight_view router, moe_router_launch a) \
	{ \
		moe_router<format>(router, a); \
	}
MOE_ROUTER(f32, WEIGHT_F32)
MOE_ROUTER(f16, WEIGHT_F16)
MOE_ROUTER(bf16, WEIGHT_BF16)
