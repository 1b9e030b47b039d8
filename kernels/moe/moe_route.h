/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a product that adds to x and that a router reads next, for one token: each
 * workgroup adds its rows' share of the logits, and the last one to finish normalises x and
 * has all logits. See moe_route.hip.
 */
#pragma once
#include "kernels/moe/moe_choose.h"
#include "kernels/moe/moe_sum.h"
#include "kernels/rows/rms_norm_row.h"

/* A router's numbers that a thread loads before the product: MOE_ROUTE_HELD eights of its
 * share, and, in the first ROWS threads, the norm's weight of a row. */
enum { MOE_ROUTE_HELD = 2 };
struct moe_route_held {
	u32x4 w[MOE_ROUTE_HELD];
	float norm;
};

/* Eight i of the workgroup's share: rows [first + 8 (i % EIGHTS), + 8) of expert i / EIGHTS. */
template <int EIGHTS>
DEVICE u32x4 moe_route_load(const weight_view &router, int32_t first, int32_t i)
{
	int32_t e = i / EIGHTS, row = first + i % EIGHTS * 8;
	size_t n = (size_t)(e < router.n ? e : router.n - 1);
	return load_global<u32x4>((const char *)router.q + n * (size_t)router.pitch +
				  (size_t)row * 2);
}

template <int ROWS, int THREADS>
DEVICE void moe_route_hold(const weight_view &router, const moe_router_launch &a,
			   moe_route_held *out)
{
	int32_t first = (int32_t)group_index_x() * ROWS, at = (int32_t)thread_index();
	UNROLL
	for (int j = 0; j < MOE_ROUTE_HELD; j++)
		out->w[j] = moe_route_load<ROWS / 8>(router, first, at + j * THREADS);
	out->norm = at < ROWS ? load_global<float>(a.norm.weight + first + at) : 0;
}

/* Add the workgroup's share to the sums. x, norm: LDS, x and the norm's weights of its rows. */
template <int format, int ROWS, int THREADS>
DEVICE void moe_route_add(const weight_view &router, const moe_router_launch &a,
			  const moe_route_held &held, const float *x, const float *norm)
{
	constexpr int32_t EIGHTS = ROWS / 8;
	int32_t first = (int32_t)group_index_x() * ROWS, at = (int32_t)thread_index();
	/* Whole waves: lanes exchange their sums. */
	int32_t end = (router.n * EIGHTS + WAVE - 1) / WAVE * WAVE;
	for (int32_t j = 0, i = at; i < end; j++, i += THREADS) {
		u32x4 w = j == 0 ? held.w[0]
			  : j == 1 ? held.w[1] : moe_route_load<EIGHTS>(router, first, i);
		float v[8];
		UNROLL
		for (int n = 0; n < 8; n++)
			v[n] = x[i % EIGHTS * 8 + n] * norm[i % EIGHTS * 8 + n];
		uint64_t sum = moe_sum_lanes(moe_sum_eight<format>({{w}}, v), EIGHTS);
		if (i % EIGHTS == 0 && i / EIGHTS < router.n)
			atomic_add(a.sums + i / EIGHTS, sum);
	}
}

/* By the last workgroup: normalise x, make the logits and choose. Leaves the sums zero. */
template <int THREADS>
DEVICE void moe_route_last(const weight_view &router, const moe_router_launch &a, u32x4 *lds,
			   float *part, uint32_t *least)
{
	int32_t dim = router.k, at = (int32_t)thread_index();
	uint32_t n = (uint32_t)router.n, n_used = (uint32_t)a.n_used;
	rms_norm_held<THREADS> held;
	rms_norm_hold<THREADS, true>(a.norm.x, dim, &held);
	uint64_t sum = at < router.n ? a.sums[at] : 0;
	float scale = rms_norm_scale<THREADS, true>(held, a.norm.x, dim, a.norm.eps, part);
	float *logits = (float *)(lds + (MOE_CHOICE_LDS(router.n, a.n_used) + 15) / 16);
	for (int32_t e = at; e < router.n; e += THREADS) {
		sum = e == at ? sum : a.sums[e];
		a.sums[e] = 0;
		float logit = moe_sum_logit(sum, scale, a.rule.logit_bias, (size_t)e);
		a.logits[e] = logit;
		logits[e] = logit;
	}
	ONE_BY_ONE
	for (int32_t i = at * 8; i < dim; i += THREADS * 8) {
		rms_norm_8 x = rms_norm_load<true>(a.norm.x, i, dim);
		rms_norm_8 w = rms_norm_load<true>(a.norm.weight, i, dim);
		*(u32x4 *)(a.norm.y + i) = rms_norm_piece(x, w, scale);
	}
	group_barrier();
	/* Without what only moe_router.hip has. */
	moe_router_rule rule = a.rule;
	rule.is_root = 0;
	rule.fixed = nullptr;
	rule.n_groups = rule.n_groups_used = 1;
	moe_choice c = moe_choice_of((uint32_t *)lds, router.n, a.n_used);
	moe_choose<THREADS>(rule, logits, moe_choose_first(logits, n), n, n_used, c, least,
			    nullptr);
	if (wave_index() == 0)
		moe_choose_weigh(rule, logits, n, n_used, c, a.id, a.weight);
}

/* x: LDS (ROWS), what the product has stored to the workgroup's rows. The last workgroup
 * chooses; lds: MOE_ROUTE_LDS bytes for that, which other waves may still be reading. */
template <int ROWS, int THREADS>
DEVICE void moe_route_end(const weight_view &router, const moe_router_launch &a,
			  const moe_route_held &held, const float *x, u32x4 *lds)
{
	LDS(uint32_t, before, 1);
	LDS(float, part, RMS_NORM_WAVES);
	LDS(float, norm, ROWS);
	if (thread_index() < ROWS)
		norm[thread_index()] = held.norm;
	group_barrier();
	if (router.format == WEIGHT_F16)
		moe_route_add<WEIGHT_F16, ROWS, THREADS>(router, a, held, x, norm);
	else
		moe_route_add<WEIGHT_BF16, ROWS, THREADS>(router, a, held, x, norm);
	if (group_arrive(a.arrived, before) + 1 != (uint32_t)router.k / ROWS)
		return;
	group_barrier(); /* all threads have read `before` */
	if (thread_index() == 0)
		*a.arrived = 0;
	moe_route_last<THREADS>(router, a, lds, part, before);
}
