/* SPDX-License-Identifier: Apache-2.0
 *
 * The pair that a workgroup of up has, and its expert: the router has left logits, and
 * each workgroup finds who is at its own slot's place, for a launch that did only that
 * would be waited for, and so is the router's last workgroup where it chooses for all.
 *
 * One wave does it while the others stage x: each lane puts its own few experts in
 * order, then the best of the lanes' firsts is taken away until the place is reached.
 * That is as many short turns as the place has before it, and needs no other wave. The
 * whole choice, which down will read, is made by a workgroup of its own, the first of
 * the token's first pair; that of the shared expert's makes its weight.
 */
#pragma once
#include "kernels/moe/moe_choose.h"
#include "kernels/moe/moe_slots.h"

enum { MOE_PICK_EXPERTS = 8 * WAVE }; /* at most, of one wave */

/* The expert at place `place`, the whole wave. Lanes have N neighbours each, so of equal
 * keys the first lane's are the earlier experts. E <= 32 N. */
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
	UNROLL
	for (uint32_t i = 0; i < N; i++) {
		id[i] = from + i;
		key[i] = from + i < n ? moe_choose_key(logit[i]) : (uint32_t)KEY_TAKEN;
	}
	/* Neighbours change places only where the later is greater: equals keep theirs. */
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
		lane = lanes & (0 - lanes); /* the first, as a bit */
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

/* Before x is staged: the pair, but for the expert where there are logits. */
DEVICE moe_pair moe_pick_pair(const moe_launch &a)
{
	return moe_pair_at(a, group_index_y(), !a.logits);
}

/* What is done once a token, by the first workgroup of a pair (MOE_UP_FIRST); x: of the
 * token, c: LDS. */
template <int THREADS>
DEVICE void moe_pick_once(const moe_launch &a, const moe_pair &p, const uint16_t *x,
			  const moe_choice &c)
{
	LDS(uint32_t, least, 1);
	uint32_t n = (uint32_t)a.shared, u = (uint32_t)a.n_used;
	const float *logits = a.logits + p.token * n;
	moe_slots_scale(a, p, x);
	if (!a.logits || p.is_shared || p.slot != 0)
		return;
	moe_choose<THREADS>(a.rule, logits, moe_choose_first(logits, n), n, u, c, least);
	if (wave_index() == 0)
		moe_choose_weigh(a.rule, logits, n, u, c, (int32_t *)a.id + p.token * u,
				 (float *)a.weight + p.token * u);
}

/* Chooses, where there are logits. A barrier, and then moe_pick_end. */
template <int THREADS>
DEVICE void moe_pick_begin(const moe_launch &a, const moe_pair &p, const moe_choice &c)
{
	LDS(uint32_t, least, 1);
	uint32_t n = (uint32_t)a.shared, u = (uint32_t)a.n_used, e = 0;
	const float *logits = a.logits + p.token * n;
	if (!a.logits || p.is_shared)
		return;
	if (n > MOE_PICK_EXPERTS || moe_choose_has_groups(a.rule)) {
		moe_choose<THREADS>(a.rule, logits, moe_choose_first(logits, n), n, u, c, least);
	} else if (wave_index() == 0) {
		if (n <= MOE_PICK_EXPERTS / 2)
			e = moe_pick_place<4>(a.rule, logits, n, (uint32_t)p.slot);
		else
			e = moe_pick_place<8>(a.rule, logits, n, (uint32_t)p.slot);
		if (lane_index() == 0)
			c.id[p.slot] = e;
	}
}

/* The pair with its expert. */
DEVICE moe_pair moe_pick_end(const moe_launch &a, const moe_choice &c, moe_pair p)
{
	if (a.logits && !p.is_shared)
		p.expert = wave_uniform(c.id[p.slot]);
	return p;
}
