/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs (token, slot) of a step of a few tokens that chose the same expert. They are found
 * where they are needed, by ballots over all ids of the step. So no launch sorts them.
 *
 * The pairs of an expert have an order: by slot, then by token. The first of them, and each
 * MOE_GROUP-th behind it, leads a group; the group's other pairs have no work of their own.
 */
#pragma once
#include "kernels/moe/moe_slots.h"

/* Each lane's ids: in e[w] that of slot 2 w + lane / 16 of token lane % 16. */
struct moe_ids {
	uint32_t e[MOE_GROUP_SLOTS / 2];
};

DEVICE moe_ids moe_ids_of(const moe_launch &a)
{
	moe_ids out;
	int32_t t = (int32_t)lane_index() % MOE_GROUP_TOK;
	int32_t first = (int32_t)lane_index() / MOE_GROUP_TOK;
	UNROLL
	for (int w = 0; w < MOE_GROUP_SLOTS / 2; w++) {
		int32_t s = 2 * w + first;
		bool is_routed = a.id && s < a.n_used && t < a.n_tok;
		out.e[w] = s < a.n_slots && t < a.n_tok ? (uint32_t)a.shared : ~0u;
		if (2 * w < a.n_used && is_routed)
			out.e[w] = (uint32_t)a.id[t * a.n_used + s];
	}
	return out;
}

struct moe_group {
	int32_t n;      /* pairs, at most MOE_GROUP; 0: this pair leads no group */
	uint32_t pairs; /* a byte each, 16 slot + token; unused ones repeat the last */
	size_t expert;
};

/* The group that pair p leads. All lanes of a wave must call it. */
DEVICE moe_group moe_group_of(const moe_launch &a, const moe_ids &ids, const moe_pair &p)
{
	moe_group g = {0, 0, p.expert};
	int32_t code = (int32_t)(p.slot * MOE_GROUP_TOK + p.token);
	uint32_t before = 0;
	UNROLL
	for (int w = 0; w < MOE_GROUP_SLOTS / 2; w++) {
		if (2 * w >= a.n_slots)
			continue;
		uint32_t same = wave_ballot(ids.e[w] == (uint32_t)p.expert);
		int32_t from = code - w * WAVE;
		uint32_t below = from <= 0 ? 0 : from >= WAVE ? ~0u : (1u << from) - 1;
		before += bit_count(same & below);
		for (same &= ~below; same && g.n < MOE_GROUP; same &= same - 1, g.n++) {
			uint32_t at = (uint32_t)w * WAVE + bit_count((same & (0 - same)) - 1);
			g.pairs = (g.pairs & ((1u << 8 * g.n) - 1)) |
				  at * 0x01010101u << 8 * g.n;
		}
	}
	g.n = before % MOE_GROUP ? 0 : g.n;
	return g;
}

/* Pair i of a group; beyond its pairs, the last one. */
DEVICE moe_pair moe_group_pair(const moe_launch &a, const moe_group &g, int32_t i)
{
	uint32_t code = g.pairs >> 8 * i & 255;
	moe_pair p = moe_slot_at(a, code % MOE_GROUP_TOK, code / MOE_GROUP_TOK, false);
	p.expert = g.expert;
	return p;
}

/* Index, in rows, of a pair's part of y. */
DEVICE int32_t moe_group_part(const moe_pair &p)
{
	return (int32_t)(p.slot * MOE_GROUP_TOK + p.token);
}

/* y += the parts (n_slots, MOE_GROUP_TOK, ROWS) of all tokens, slot by slot, for outputs
 * [d0, d0 + ROWS). By all threads. */
template <int ROWS>
DEVICE void moe_group_add(const moe_launch &a, int32_t d0, const float *part)
{
	int32_t i = (int32_t)thread_index();
	for (; i < a.n_tok * ROWS; i += a.n_waves * WAVE) {
		int32_t t = i / ROWS, row = i % ROWS;
		if (d0 + row >= a.dim)
			continue;
		float *y = a.y + (size_t)t * (size_t)a.dim + (size_t)(d0 + row), sum = *y;
		for (int32_t s = 0; s < a.n_slots; s++)
			sum += part[(s * MOE_GROUP_TOK + t) * ROWS + row];
		*y = sum;
	}
}

/* The weights of the shared expert for a group's tokens (moe_slots_scale). */
DEVICE void moe_group_scale(const moe_launch &a, const moe_group &g)
{
	for (int32_t i = 0; i < g.n; i++) {
		moe_pair p = moe_group_pair(a, g, i);
		moe_slots_scale(a, p, a.x + p.token * (size_t)a.dim);
	}
}
