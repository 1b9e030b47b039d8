/* SPDX-License-Identifier: Apache-2.0
 *
 * Dot products and activations of the CPU backend's exact way.
 *
 * The length n alone fixes the order of a dot product. Lane l sums elements l, l+4, l+8 …
 * in order. Then comes (lane 0 + lane 2) + (lane 1 + lane 3). Then the last n % 4
 * elements are added one by one. All variants below keep to this order.
 */
#pragma once
#include "base/vec4.h"
#include "model/formats/activation.h"

/* out[j] = dot products of four rows with x[j], j < n_x. n_x is the constant 1 or 2, so
 * that the accumulators stay in registers. */
VEC4_INLINE void dot_rows(const float *const row[4], const float *const *x, int n_x,
			 int n, vec4 *out)
{
	vec4 acc[2][4] = {{{0}}};
	int i = 0;
	for (; i + 4 <= n; i += 4) {
		vec4 w0 = vec4_load(row[0] + i), w1 = vec4_load(row[1] + i);
		vec4 w2 = vec4_load(row[2] + i), w3 = vec4_load(row[3] + i);
#pragma GCC unroll 2
		for (int j = 0; j < n_x; j++) {
			vec4 v = vec4_load(x[j] + i);
			acc[j][0] += w0 * v;
			acc[j][1] += w1 * v;
			acc[j][2] += w2 * v;
			acc[j][3] += w3 * v;
		}
	}
	for (int j = 0; j < n_x; j++) {
		out[j] = vec4_sums(acc[j][0], acc[j][1], acc[j][2], acc[j][3]);
		for (int k = i; k < n; k++)
			out[j] += (vec4){row[0][k], row[1][k], row[2][k], row[3][k]} *
				  vec4_all(x[j][k]);
	}
}

/* Sum of squares, in the order of a dot product. */
VEC4_INLINE float squares_of(const float *x, int n)
{
	vec4 acc = {0};
	int i = 0;
	for (; i + 4 <= n; i += 4)
		acc += vec4_load(x + i) * vec4_load(x + i);
	float sum = vec4_sums(acc, acc, acc, acc)[0];
	for (; i < n; i++)
		sum += x[i] * x[i];
	return sum;
}

/* gate / (1 + e^-gate) * up. Clamped at -87, where the quotient is practically zero:
 * below that vec4_exp no longer grows, and the quotient would be wrong. */
VEC4_INLINE vec4 silu_mul4(vec4 gate, vec4 up)
{
	gate = vec4_select(gate < vec4_all(-87), vec4_all(-87), gate);
	return gate / (vec4_all(1) + vec4_exp(-gate)) * up;
}

VEC4_INLINE float silu_mul_one(float gate, float up)
{
	return silu_mul4(vec4_all(gate), vec4_all(up))[0];
}

/* gelu(g) = g / (1 + e^-z), z = 2 sqrt(2 / pi) (g + 0.044715 g^3). Clamped at -10, where
 * the quotient is practically zero: far below, vec4_exp no longer grows with z. */
VEC4_INLINE vec4 gelu_mul4(vec4 gate, vec4 up)
{
	gate = vec4_select(gate < vec4_all(-10), vec4_all(-10), gate);
	vec4 cube = vec4_all(0.044715f) * gate * gate * gate;
	vec4 z = vec4_all(1.595769122f) * (gate + cube);
	return gate / (vec4_all(1) + vec4_exp(-z)) * up;
}

VEC4_INLINE vec4 act_mul4(const struct activation *act, vec4 g, vec4 u)
{
	if (act->kind == ACT_SILU)
		return silu_mul4(g, u);
	if (act->kind == ACT_GELU_TANH)
		return gelu_mul4(g, u);
	if (act->kind == ACT_RELU)
		return vec4_select(g > vec4_all(0), g * u, vec4_all(0));
	vec4 limit = vec4_all(act->limit), alpha = vec4_all(act->alpha);
	if (act->kind == ACT_SCALED)
		return silu_mul4(alpha * g, vec4_all(act->scale) * u);
	vec4 most = act->kind == ACT_CLIPPED ? vec4_all(act->gate_limit) : limit;
	g = vec4_select(g > most, most, g);
	u = vec4_select(u > limit, limit, u);
	u = vec4_select(u < -limit, -limit, u);
	if (act->kind == ACT_CLIPPED)
		return silu_mul4(g, u);
	return silu_mul4(alpha * g, (u + vec4_all(1)) / alpha);
}
