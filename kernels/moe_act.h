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

/* As f16, nearest; what is beyond its range as the largest: an infinity would reach
 * every output of the token, and turn to NaN where a weight is zero. */
DEVICE uint16_t moe_act(const moe_launch &a, float g, float u)
{
	if (a.act == MOE_CLAMPED) {
		g = g > a.limit ? a.limit : g;
		u = u > a.limit ? a.limit : u < -a.limit ? -a.limit : u;
		u += 1;
	}
	float h = moe_silu(g, a.act == MOE_CLAMPED ? a.alpha : 1) * u;
	h = h > 65504 ? 65504 : h < -65504 ? -65504 : h;
	return f32_to_f16(h);
}

/* The expert of pair p. */
DEVICE int32_t moe_expert(const moe_launch &a, size_t p)
{
	return a.id ? (int32_t)wave_uniform((uint32_t)a.id[p]) : a.only;
}
