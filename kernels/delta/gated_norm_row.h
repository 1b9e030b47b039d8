/* SPDX-License-Identifier: Apache-2.0
 *
 * A head's gated norm (kernels/ops/gated_norm.h) by one wave, with the same bits in every
 * kernel that has it.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/delta/delta_launch.h"

/* Element of channel c of token t. */
DEVICE float gate_number(const half_heads &v, int32_t t, int32_t c)
{
	return f16_to_f32(v.p[(size_t)t * (size_t)v.row +
			      (size_t)(c / v.dim) * (size_t)v.pitch + (size_t)(c % v.dim)]);
}

DEVICE float gate_silu(float z)
{
	return z * fast_rcp(1 + fast_exp2(z * -1.44269504f));
}

DEVICE float gate_of(const gated_norm_launch &a, float z)
{
	float sigmoid = fast_rcp(1 + fast_exp2(z * -1.44269504f));
	return a.is_sigmoid ? sigmoid : z * sigmoid;
}

/* Row i: head i % H of token i / H. x and y may be the same. */
DEVICE void gated_norm_row(const gated_norm_launch &a, int32_t i)
{
	const uint16_t *x = a.x + (size_t)i * (size_t)a.dim;
	uint16_t *y = a.y + (size_t)i * (size_t)a.dim;
	int32_t t = i / a.n_heads, first = i % a.n_heads * a.dim;
	float squares = 0;
	for (int32_t d = (int32_t)lane_index(); d < a.dim; d += WAVE) {
		float v = f16_to_f32(x[d]);
		squares += v * v;
	}
	float scale = fast_rsqrt(wave_sum(squares) * fast_rcp((float)a.dim) + a.eps);
	for (int32_t d = (int32_t)lane_index(); d < a.dim; d += WAVE) {
		float gate = gate_of(a, gate_number(a.z, t, first + d));
		y[d] = f32_to_f16(f16_to_f32(x[d]) * scale * a.weight[d] * gate);
	}
}

/* Row i where the gate comes first (gates_first). x and y may be the same. */
DEVICE void norm_gated_row(const gated_norm_launch &a, int32_t i)
{
	const uint16_t *x = a.x + (size_t)i * (size_t)a.dim;
	uint16_t *y = a.y + (size_t)i * (size_t)a.dim;
	int32_t t = i / a.n_heads, first = i % a.n_heads * a.dim;
	float squares = 0;
	for (int32_t d = (int32_t)lane_index(); d < a.dim; d += WAVE) {
		float v = f16_to_f32(x[d]) * gate_silu(gate_number(a.z, t, first + d) * a.z_scale);
		squares += v * v;
	}
	float scale = fast_rsqrt(wave_sum(squares) * fast_rcp((float)a.dim) + a.eps);
	if (a.skips_norm)
		scale = 1;
	for (int32_t d = (int32_t)lane_index(); d < a.dim; d += WAVE) {
		float v = f16_to_f32(x[d]) * gate_silu(gate_number(a.z, t, first + d) * a.z_scale);
		y[d] = f32_to_f16(v * scale * a.weight[first + d]);
	}
}
