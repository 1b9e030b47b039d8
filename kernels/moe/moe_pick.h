/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the expert of a workgroup of up from the router's logits. Each workgroup finds
 * only the expert of its own slot. The alternatives are slower, because all would wait: a
 * launch that only chooses, or the router's last workgroup choosing for all.
 *
 * One wave does this while the others copy x to LDS. Behind moe_route.hip all threads have made
 * logits, and with them the keys that are compared. Each lane has a few experts. The best of
 * all is removed until the slot's place is reached. That takes as many short rounds as there
 * are places before it, and no other wave. A lane does not sort its experts first: a sort of
 * eight is more instructions than all rounds, and they come from memory once a workgroup.
 * Rounds that find the next key below, and not who has it, are no faster: 0.996 (an H200,
 * Qwen3-30B-A3B, ratio of a token's speeds).
 *
 * down needs all chosen experts and their weights. A separate workgroup computes them:
 * the first of the token's first pair. The first workgroup of the shared expert's pair
 * computes the shared expert's weight.
 */
#pragma once
#include "kernels/moe/moe_choose.h"
#include "kernels/moe/moe_slots.h"

enum { MOE_PICK_EXPERTS = 8 * WAVE }; /* most experts that one wave looks at */

/* The largest key of a lane; by halves, so that few maxima wait for others. */
template <int N> DEVICE uint32_t moe_pick_most(const uint32_t (&key)[N])
{
	uint32_t most[N];
	UNROLL
	for (int i = 0; i < N; i++)
		most[i] = key[i];
	UNROLL
	for (int half = N / 2; half; half /= 2)
		UNROLL
		for (int i = 0; i < half; i++)
			most[i] = most[i + half] > most[i] ? most[i + half] : most[i];
	return most[0];
}

/* The key by which an expert is chosen, without rules that need all logits (is_shifted). */
DEVICE uint32_t moe_pick_key(const moe_router_rule &rule, float logit, uint32_t e)
{
	return moe_choose_key(rule.is_sigmoid ? moe_choose_sigmoid(rule, logit, e) : logit);
}

/* The expert ranked `place`, by the whole wave. Each lane has the keys of N neighbouring experts,
 * so among equal keys the first lane has the lower ids. */
template <int N> DEVICE uint32_t moe_pick_take(uint32_t (&key)[N], uint32_t place)
{
	uint32_t from = lane_index() * N, best = 0, lane = 0;
	ONE_BY_ONE
	for (uint32_t done = 0; done <= place; done++) {
		uint32_t most = wave_max(moe_pick_most(key)), first[N];
		UNROLL
		for (uint32_t i = 0; i < N; i++)
			first[i] = key[i] == most ? i : (uint32_t)N;
		UNROLL
		for (int half = N / 2; half; half /= 2)
			UNROLL
			for (int i = 0; i < half; i++)
				first[i] = first[i + half] < first[i] ? first[i + half] : first[i];
		uint32_t lanes = wave_ballot(first[0] < N);
		lane = lanes & (0 - lanes); /* the lowest such lane, as a bit */
		uint32_t taken = lane >> lane_index() & 1 ? first[0] : (uint32_t)N;
		best = taken < N ? from + taken : best;
		UNROLL
		for (uint32_t i = 0; i < N; i++)
			key[i] = i == taken ? (uint32_t)KEY_TAKEN : key[i];
	}
	return wave_shuffle(best, bit_count(lane - 1));
}

/* moe_pick_take for n keys in LDS. n <= 32 N. */
template <int N>
DEVICE uint32_t moe_pick_keys(const uint32_t *keys, uint32_t n, uint32_t place)
{
	uint32_t key[N];
	UNROLL
	for (uint32_t i = 0; i < N; i += 4) {
		uint32_t at = lane_index() * N + i;
		u32x4 four = *(const u32x4 *)(keys + (at < n ? at : 0));
		UNROLL
		for (uint32_t j = 0; j < 4; j++)
			key[i + j] = at + j < n ? four[j] : (uint32_t)KEY_TAKEN;
	}
	return moe_pick_take<N>(key, place);
}

/* moe_pick_take for logits. E <= 32 N. */
template <int N>
DEVICE uint32_t moe_pick_place(const moe_router_rule &rule, const float *logits, uint32_t n,
			       uint32_t place)
{
	uint32_t key[N], from = lane_index() * N;
	float logit[N];
	/* Past the end: the last one. Only key[] tells them apart, so no lane masks are kept. */
	auto at = [&](uint32_t i) { return from + i < n ? from + i : n - 1; };
	UNROLL
	for (uint32_t i = 0; i < N; i++)
		logit[i] = logits[at(i)];
	if (rule.is_sigmoid) {
		UNROLL
		for (uint32_t i = 0; i < N; i++)
			logit[i] = moe_choose_sigmoid(rule, logit[i], at(i));
	}
	if (rule.is_shifted) {
		moe_softmax all = moe_choose_softmax(logits, n);
		UNROLL
		for (uint32_t i = 0; i < N; i++)
			logit[i] = moe_choose_shifted(rule, all, logit[i], at(i));
	}
	UNROLL
	for (uint32_t i = 0; i < N; i++)
		key[i] = from + i < n ? moe_choose_key(logit[i]) : (uint32_t)KEY_TAKEN;
	return moe_pick_take<N>(key, place);
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
 * token's input; near: its logits in LDS if IS_NEAR, else they are in memory; c: LDS. */
template <int THREADS, bool IS_NEAR>
DEVICE void moe_pick_once(const moe_launch &a, const moe_pair &p, const uint16_t *x,
			  const float *near, const moe_choice &c)
{
	LDS(uint32_t, least, 1);
	uint32_t n = (uint32_t)a.shared, u = (uint32_t)a.n_used;
	moe_slots_scale(a, p, x);
	if (!a.logits || p.is_shared || p.slot != 0)
		return;
	const float *logits = IS_NEAR ? near : a.logits + p.token * n;
	const moe_router_rule rule = moe_pick_rule(a);
	moe_choose<THREADS>(rule, logits, moe_choose_first(logits, n), n, u, c, least, nullptr);
	if (wave_index() == 0)
		moe_choose_weigh(rule, logits, n, u, c, (int32_t *)a.id + p.token * u,
				 (float *)a.weight + p.token * u);
}

/* Start to choose the expert, if there are logits; near: as in moe_pick_once. Where it is near, so
 * are the experts' keys, c.keys. The caller then waits at a barrier and calls
 * moe_pick_end. */
template <int THREADS, bool IS_NEAR>
DEVICE void moe_pick_begin(const moe_launch &a, const moe_pair &p, const float *near,
			   const moe_choice &c)
{
	LDS(uint32_t, least, 1);
	uint32_t n = (uint32_t)a.shared, u = (uint32_t)a.n_used;
	if (!a.logits || p.is_shared)
		return;
	const float *logits = IS_NEAR ? near : a.logits + p.token * n;
	const moe_router_rule rule = moe_pick_rule(a);
	bool needs_all = moe_choose_has_groups(rule) || (IS_NEAR && rule.is_shifted);
	if (n > MOE_PICK_EXPERTS || needs_all) {
		moe_choose<THREADS>(rule, logits, moe_choose_first(logits, n), n, u, c, least,
				    nullptr);
	} else if (wave_index() == 0) {
		enum { MOST = MOE_PICK_EXPERTS / WAVE, FEW = MOST / 2 };
		uint32_t place = (uint32_t)p.slot, e;
		if (!IS_NEAR)
			e = moe_pick_place<MOST>(rule, logits, n, place);
		else
			e = n <= FEW * WAVE ? moe_pick_keys<FEW>(c.keys, n, place)
					    : moe_pick_keys<MOST>(c.keys, n, place);
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
