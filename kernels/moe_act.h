/* SPDX-License-Identifier: Apache-2.0
 *
 * What an expert does between its two layers, and which expert a pair has.
 */
#pragma once
#include "kernels/dialect.h"
#include "kernels/moe_launch.h"

/* g / (1 + exp(-alpha g)), in one exp2 and one rcp; exp2 is infinite where g is far
 * below zero, and rcp makes that zero. */
DEVICE float moe_silu(float g, float alpha)
{
	return g * fast_rcp(1 + fast_exp2(g * alpha * -1.44269504f));
}

DEVICE float moe_sigmoid(float x)
{
	return fast_rcp(1 + fast_exp2(x * -1.44269504f));
}

/* A token's expert: which, and where its h is. */
struct moe_pair {
	size_t token, expert;
	bool is_shared;
	uint16_t *h; /* (F) */
};

DEVICE moe_pair moe_pair_at(const moe_launch &a, size_t p)
{
	moe_pair out;
	size_t n = (size_t)a.n_slots, u = (size_t)a.n_used, slot = p % n;
	out.token = p / n;
	out.is_shared = !a.id || slot == u;
	out.expert = out.is_shared ? (size_t)a.shared : (size_t)a.id[out.token * u + slot];
	out.h = slot == u ? a.shared_h + out.token * (size_t)a.ffn
			  : a.h + (out.token * u + slot) * (size_t)a.ffn;
	return out;
}

/* What its output is multiplied by. */
DEVICE float moe_slot_weight(const moe_launch &a, size_t t, size_t slot)
{
	size_t u = (size_t)a.n_used;
	if (slot == u)
		return a.shared_scale ? a.shared_scale[t] : 1;
	return a.weight ? a.weight[t * u + slot] : 1;
}

DEVICE float moe_pair_weight(const moe_launch &a, size_t p)
{
	return moe_slot_weight(a, p / (size_t)a.n_slots, p % (size_t)a.n_slots);
}

/* As f16, nearest; what is beyond its range as the largest: an infinity would reach
 * every output of the token, and turn to NaN where a weight is zero. */
DEVICE uint16_t moe_act(const moe_launch &a, const moe_pair &p, size_t f, float g,
			float u)
{
	if (a.gate_bias && !p.is_shared) {
		g += a.gate_bias[p.expert * (size_t)a.ffn + f];
		u += a.up_bias[p.expert * (size_t)a.ffn + f];
	}
	bool is_clamped = a.act == MOE_CLAMPED && !p.is_shared;
	if (is_clamped) {
		g = g > a.limit ? a.limit : g;
		u = u > a.limit ? a.limit : u < -a.limit ? -a.limit : u;
		u += 1;
	}
	float h = moe_silu(g, is_clamped ? a.alpha : 1) * u;
	h = h > 65504 ? 65504 : h < -65504 ? -65504 : h;
	return f32_to_f16(h);
}
