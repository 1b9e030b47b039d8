/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the up and down kernels of few tokens: the weights of a token's slots, and
 * the sum over slots in order.
 */
#pragma once
#include "kernels/weights/dequant.h"
#include "kernels/moe/moe_act.h"

/* Product of router (1, D) and x, by the whole wave. D is a multiple of 8. */
template <int format> DEVICE float moe_slots_dot(const weight_view &router, const uint16_t *x)
{
	constexpr int32_t size = format == WEIGHT_F32 ? 4 : 2;
	float sum = 0;
	for (int32_t i = (int32_t)lane_index() * 8; i < router.k; i += WAVE * 8)
		sum = dot8<format>((const char *)router.q + i * size, x + i, sum);
	return wave_sum(sum);
}

/* moe_slots_dot for a router of f32, f16 or bf16. */
DEVICE float moe_slots_router(const weight_view &router, const uint16_t *x)
{
	if (router.format == WEIGHT_F32)
		return moe_slots_dot<WEIGHT_F32>(router, x);
	if (router.format == WEIGHT_F16)
		return moe_slots_dot<WEIGHT_F16>(router, x);
	return moe_slots_dot<WEIGHT_BF16>(router, x);
}

/* Compute the shared expert's weight from x (D). By all threads of one workgroup of up,
 * once a token. */
DEVICE void moe_slots_scale(const moe_launch &a, const moe_pair &p, const uint16_t *x)
{
	if (!p.is_shared || !a.shared_router.q || wave_index() != 0)
		return;
	float dot = moe_slots_router(a.shared_router, x);
	if (lane_index() == 0)
		a.shared_scale[p.token] = moe_sigmoid(dot);
}

/* Pair p's part of output d: its product x, plus bias, times weight (moe_slot_weight). */
DEVICE float moe_slots_part(const moe_launch &a, const moe_pair &p, float weight, int32_t d,
			    float x)
{
	if (a.down_bias && !p.is_shared && d < a.dim)
		x += a.down_bias[p.expert * (size_t)a.dim + (size_t)d];
	return x * weight;
}

/* The element of y that this thread adds to, among outputs [d0, d0 + n_rows) of token t. */
DEVICE float moe_slots_y(const moe_launch &a, size_t t, int32_t d0, int32_t n_rows)
{
	int32_t row = (int32_t)thread_index();
	bool is_mine = row < n_rows && d0 + row < a.dim;
	return is_mine ? a.y[t * (size_t)a.dim + (size_t)(d0 + row)] : 0;
}

/* Add the slots' parts (n_slots, n_rows) to sum, which moe_slots_y returned, and store it
 * to y. */
DEVICE void moe_slots_add(const moe_launch &a, size_t t, int32_t d0, int32_t n_rows,
			  const float *part, float sum)
{
	int32_t row = (int32_t)thread_index();
	if (row >= n_rows || d0 + row >= a.dim)
		return;
	for (int32_t s = 0; s < a.n_slots; s++)
		sum += part[s * n_rows + row];
	a.y[t * (size_t)a.dim + (size_t)(d0 + row)] = sum;
}
