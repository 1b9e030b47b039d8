/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the expert of a workgroup of up from the router's logits. Each workgroup finds
 * only the expert of its own slot. The alternatives are slower, because all would wait: a
 * launch that only chooses, or the router's last workgroup choosing for all.
 *
 * One wave does this while the others copy x to LDS. Each lane sorts its few experts.
 * Then the best of the lanes' first experts is removed until the slot's place is reached.
 * That takes as many short rounds as there are places before it, and no other wave.
 *
 * down needs all chosen experts and their weights. A separate workgroup computes them:
 * the first of the token's first pair. The first workgroup of the shared expert's pair
 * computes the shared expert's weight.
 */
#pragma once
#include "kernels/moe/moe_choose.h"
#include "kernels/moe/moe_slots.h"

enum { MOE_PICK_EXPERTS = 8 * WAVE }; /* most experts that one wave can sort */

/* The expert ranked `place`, by the whole wave. Each lane has N neighbouring experts, so
 * among equal keys the first lane has the lower ids. E <= 32 N. */
template <int N>
DEVICE uint32_t moe_pick_place(const moe_router_rule &rule, const float *logits, uint32_t n,
			       uint32_t place)
{
	uint32_t key[N], id[N], from = lane_index() * N, best = 0, lane = 0;
	float logit[N];
	UNROLL
	for (uint32_t i = 0; i < N; i++)
		logit[i] = from + i < n ? logits[from + i] : 0;
	if (rule.is_sigmoid) {
		UNROLL
		for (uint32_t i = 0; i < N; i++)
			logit[i] = moe_choose_sigmoid(rule, logit[i], from + i < n ? from + i : 0);
	}
	if (rule.is_shifted) {
		moe_softmax all = moe_choose_softmax(logits, n);
		UNROLL
		for (uint32_t i = 0; i < N; i++)
			logit[i] = moe_choose_shifted(rule, all, logit[i],
						      from + i < n ? from + i : 0);
	}
	UNROLL
	for (uint32_t i = 0; i < N; i++) {
		id[i] = from + i;
		key[i] = from + i < n ? moe_choose_key(logit[i]) : (uint32_t)KEY_TAKEN;
	}
	/* Odd-even sort of a lane's keys. Only a strictly greater later key moves ahead,
	 * so equal keys keep their order. */
	UNROLL
	for (int turn = 0; turn < N; turn++)
		UNROLL
		for (int i = turn % 2; i + 1 < N; i += 2) {
			bool swaps = key[i + 1] > key[i];
			uint32_t k = key[i], e = id[i];
			key[i] = swaps ? key[i + 1] : k;
			id[i] = swaps ? id[i + 1] : e;
			key[i + 1] = swaps ? k : key[i + 1];
			id[i + 1] = swaps ? e : id[i + 1];
		}
	ONE_BY_ONE
	for (uint32_t at = 0; at <= place; at++) {
		uint32_t lanes = wave_ballot(key[0] == wave_max(key[0]));
		lane = lanes & (0 - lanes); /* the lowest such lane, as a bit */
		best = id[0];
		bool is_mine = lane >> lane_index() & 1;
		UNROLL
		for (int i = 0; i < N; i++) {
			key[i] = !is_mine ? key[i] : i + 1 < N ? key[i + 1] : (uint32_t)KEY_TAKEN;
			id[i] = is_mine && i + 1 < N ? id[i + 1] : id[i];
		}
	}
	return wave_shuffle(best, bit_count(lane - 1));
}

/* The workgroup's pair, before x is copied; without its expert if there are logits. */
DEVICE moe_pair moe_pick_pair(const moe_launch &a)
{
	return moe_pair_at(a, group_index_y(), !a.logits);
}

/* The launch's rule without the options that only moe_router.hip has. */
DEVICE moe_router_rule moe_pick_rule(const moe_launch &a)
{
	moe_router_rule rule = a.rule;
	rule.is_root = 0;
	rule.fixed = nullptr;
	return rule;
}

/* Do the work that a token needs once, in the first workgroup of a pair (MOE_UP_FIRST). x: the
 * token's input; c: LDS. */
template <int THREADS>
DEVICE void moe_pick_once(const moe_launch &a, const moe_pair &p, const uint16_t *x,
			  const moe_choice &c)
{
	LDS(uint32_t, least, 1);
	uint32_t n = (uint32_t)a.shared, u = (uint32_t)a.n_used;
	moe_slots_scale(a, p, x);
	if (!a.logits || p.is_shared || p.slot != 0)
		return;
	const float *logits = a.logits + p.token * n;
	const moe_router_rule rule = moe_pick_rule(a);
	moe_choose<THREADS>(rule, logits, moe_choose_first(logits, n), n, u, c, least, nullptr);
	if (wave_index() == 0)
		moe_choose_weigh(rule, logits, n, u, c, (int32_t *)a.id + p.token * u,
				 (float *)a.weight + p.token * u);
}

/* Start to choose the expert, if there are logits. The caller then waits at a barrier and calls
 * moe_pick_end. */
template <int THREADS>
DEVICE void moe_pick_begin(const moe_launch &a, const moe_pair &p, const moe_choice &c)
{
	LDS(uint32_t, least, 1);
	uint32_t n = (uint32_t)a.shared, u = (uint32_t)a.n_used, e = 0;
	if (!a.logits || p.is_shared)
		return;
	const float *logits = a.logits + p.token * n;
	const moe_router_rule rule = moe_pick_rule(a);
	if (n > MOE_PICK_EXPERTS || moe_choose_has_groups(rule)) {
		moe_choose<THREADS>(rule, logits, moe_choose_first(logits, n), n, u, c, least,
				    nullptr);
	} else if (wave_index() == 0) {
		if (n <= MOE_PICK_EXPERTS / 2)
			e = moe_pick_place<4>(rule, logits, n, (uint32_t)p.slot);
		else
			e = moe_pick_place<8>(rule, logits, n, (uint32_t)p.slot);
		if (lane_index() == 0)
			c.id[p.slot] = e;
	}
}

/* The pair with its expert set. */
DEVICE moe_pair moe_pick_end(const moe_launch &a, const moe_choice &c, moe_pair p)
{
	if (a.logits && !p.is_shared)
		p.expert = wave_uniform(c.id[p.slot]);
	return p;
}
