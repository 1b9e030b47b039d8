/* SPDX-License-Identifier: Apache-2.0
 *
 * The activation between an expert's two layers, and the expert of a pair (token, slot).
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/moe/moe_launch.h"

/* g / (1 + exp(-alpha g)), by one exp2 and one rcp. If g is very negative, exp2 gives
 * infinity, and rcp turns that into zero. */
DEVICE float moe_silu(float g, float alpha)
{
	return g * fast_rcp(1 + fast_exp2(g * alpha * -1.44269504f));
}

DEVICE float moe_sigmoid(float x)
{
	return fast_rcp(1 + fast_exp2(x * -1.44269504f));
}

/* gelu in its tanh form is g / (1 + exp(-2 z)) (kernels/rows/act_mul.hip). Below -10 it is
 * practically zero; the cube stays finite there. */
DEVICE float moe_gelu(float g)
{
	g = g < -10 ? -10 : g;
	return g * fast_rcp(1 + fast_exp2(-2.302208198f * (g + 0.044715f * g * g * g)));
}

/* h (F) of a token's slot; the shared expert's h is a separate array. */
DEVICE uint16_t *moe_slot_h(const moe_launch &a, size_t t, size_t slot)
{
	size_t u = (size_t)a.n_used;
	return slot == u ? a.shared_h + t * (size_t)a.ffn
			 : a.h + (t * u + slot) * (size_t)a.ffn;
}

/* The router's weight of this token's slot. */
DEVICE float moe_slot_weight(const moe_launch &a, size_t t, size_t slot)
{
	size_t u = (size_t)a.n_used, i = slot == u ? t : t * u + slot;
	const float *w = slot == u ? a.shared_scale : a.weight;
	return w ? w[i] : 1;
}

/* A token's slot: its expert, and where its h is. */
struct moe_pair {
	size_t token, slot, expert;
	bool is_shared;
	uint16_t *h; /* (F) */
};

/* knows_id false: do not read the id; the expert is not set then, but for the shared one. */
DEVICE moe_pair moe_slot_at(const moe_launch &a, size_t t, size_t slot, bool knows_id = true)
{
	moe_pair out;
	size_t u = (size_t)a.n_used;
	out.token = t;
	out.slot = slot;
	out.is_shared = !a.id || slot == u;
	out.expert = out.is_shared ? (size_t)a.shared : 0;
	if (knows_id && !out.is_shared)
		out.expert = (size_t)a.id[t * u + slot];
	out.h = moe_slot_h(a, t, slot);
	return out;
}

/* Pair number p, which fits 32 bits. The next load waits for the division, so a single
 * token skips it. */
DEVICE moe_pair moe_pair_at(const moe_launch &a, size_t p)
{
	uint32_t n = (uint32_t)a.n_slots, t = a.n_tok == 1 ? 0 : (uint32_t)p / n;
	return moe_slot_at(a, t, (uint32_t)p - t * n);
}

/* Activation of one element, rounded to f16. Values beyond f16's range become the largest
 * half: an infinity would spread to all outputs of the token, and become NaN times a zero
 * weight. */
DEVICE uint16_t moe_act(const moe_launch &a, const moe_pair &p, size_t f, float g,
			float u)
{
	if (a.gate_bias && !p.is_shared) {
		size_t row = a.of_pairs ? (size_t)(p.h - a.h) : p.expert * (size_t)a.ffn;
		g += a.gate_bias[row + f];
		u += a.up_bias[row + f];
	}
	bool is_clamped = a.act == MOE_CLAMPED && !p.is_shared;
	if (is_clamped || a.act == MOE_CLIPPED) {
		g = g > a.gate_limit ? a.gate_limit : g;
		u = u > a.limit ? a.limit : u < -a.limit ? -a.limit : u;
		u += is_clamped ? 1 : 0;
	}
	bool is_gelu = a.act == MOE_GELU && !p.is_shared;
	float s = is_gelu ? moe_gelu(g) : moe_silu(g, is_clamped ? a.alpha : 1);
	float h = (a.act == MOE_RELU ? g > 0 ? g : 0 : s) * u;
	h = h > 65504 ? 65504 : h < -65504 ? -65504 : h;
	return f32_to_f16(h);
}

/* An expert's output as moe_tile_launch.out has it. */
DEVICE uint16_t moe_out(float x)
{
	x *= 1.0f / MOE_OUT_PART;
	return f32_to_f16(x > 65504 ? 65504 : x < -65504 ? -65504 : x);
}
