/* SPDX-License-Identifier: Apache-2.0
 *
 * What the down and up kernels of few tokens share beside the products: a token's slots,
 * their weights, and the sum over them in its order.
 */
#pragma once
#include "kernels/dequant.h"
#include "kernels/moe_act.h"

/* The whole wave. router (1, D): f32, f16 or bf16. */
DEVICE float moe_slots_router(const weight_view &router, const uint16_t *x)
{
	if (router.format == WEIGHT_F32)
		return row_dot<WEIGHT_F32>(&router, 0, x);
	if (router.format == WEIGHT_F16)
		return row_dot<WEIGHT_F16>(&router, 0, x);
	return row_dot<WEIGHT_BF16>(&router, 0, x);
}

/* The shared expert's own weight, of x (D): once a token, by one wave of up. */
DEVICE void moe_slots_scale(const moe_launch &a, const moe_pair &p, const uint16_t *x)
{
	if (!p.is_shared || !a.shared_router.q || group_index_x() != 0 || wave_index() != 0)
		return;
	float dot = moe_slots_router(a.shared_router, x);
	if (lane_index() == 0)
		a.shared_scale[p.token] = moe_sigmoid(dot);
}

/* What pair i adds to output d, whose product is x. */
DEVICE float moe_slots_part(const moe_launch &a, const moe_pair &p, size_t i, int32_t d,
			    float x)
{
	if (a.down_bias && !p.is_shared && d < a.dim)
		x += a.down_bias[p.expert * (size_t)a.dim + (size_t)d];
	return x * moe_pair_weight(a, i);
}

/* y of token t, outputs [d0, d0 + n_rows), += the slots' parts (n_slots, n_rows). */
DEVICE void moe_slots_add(const moe_launch &a, size_t t, int32_t d0, int32_t n_rows,
			  const float *part)
{
	int32_t row = (int32_t)thread_index();
	if (row >= n_rows || d0 + row >= a.dim)
		return;
	float *y = a.y + t * (size_t)a.dim + (size_t)(d0 + row), sum = *y;
	for (int32_t s = 0; s < a.n_slots; s++)
		sum += part[s * n_rows + row];
	*y = sum;
}
