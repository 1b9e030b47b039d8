/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h, any shape, bias and activation
 * LAYOUT    kernels/moe/moe_launch.h; weights of any format, the same for all experts. The
 *           kernels "mixed" look up each weight's own
 * GEOMETRY  workgroups of four waves. up: (F over 4, T U), one number of h a wave. down:
 *           (D over 4, T), one number of y a wave, which adds the token's experts one by
 *           one. scale: (T over 4), one token a wave
 * PRECISION f32 sums, elements 32 lanes apart; h rounded to f16; y adds experts in order
 * ROOFLINE  reads weights once for each pair of token and expert. The fallback for
 *           formats and shapes without a kernel of their own
 * TRIED     no other form
 * SEE       kernels/weights/dequant.h, kernels/ops/moe_experts_ref.c
 */
#include "kernels/weights/dequant.h"
#include "kernels/moe/moe_act.h"

enum { MOE_ANY_WAVES = 4, MOE_ANY_THREADS = MOE_ANY_WAVES * WAVE };

/* In place of a format: each weight says its own. */
enum { MOE_ANY_MIXED = -1 };

DEVICE float moe_any_mixed(const weight_view *w, size_t row, const uint16_t *x)
{
	switch (w->format) {
	case WEIGHT_F32: return row_dot<WEIGHT_F32>(w, row, x);
	case WEIGHT_F16: return row_dot<WEIGHT_F16>(w, row, x);
	case WEIGHT_BF16: return row_dot<WEIGHT_BF16>(w, row, x);
	case WEIGHT_INT4: return row_dot<WEIGHT_INT4>(w, row, x);
#define UNITS(name, format) case format: return row_dot<format>(w, row, x);
#define UNIT_BLOCKS UNITS
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
	default: return 0;
	}
}

template <int format>
DEVICE float moe_any_dot(const weight_view *w, size_t row, const uint16_t *x)
{
	if constexpr (format == MOE_ANY_MIXED)
		return moe_any_mixed(w, row, x);
	else
		return row_dot<format>(w, row, x);
}

template <int format> DEVICE void moe_any_up(const moe_launch &a)
{
	size_t f = group_index_x() * MOE_ANY_WAVES + wave_index();
	if (f >= (size_t)a.ffn)
		return;
	moe_pair p = moe_pair_at(a, group_index_y());
	const weight_view *w = a.table + p.expert * MOE_PARTS;
	const uint16_t *x = a.x + p.token * (size_t)a.dim;
	weight_view gate = w[MOE_GATE], up = w[MOE_UP];
	float g = moe_any_dot<format>(&gate, f, x), u = moe_any_dot<format>(&up, f, x);
	if (lane_index() == 0)
		p.h[f] = moe_act(a, p, f, g, u);
}

template <int format> DEVICE void moe_any_down(const moe_launch &a)
{
	size_t d = group_index_x() * MOE_ANY_WAVES + wave_index(), t = group_index_y();
	if (d >= (size_t)a.dim)
		return;
	float *y = a.y + t * (size_t)a.dim + d, sum = *y;
	for (int32_t s = 0; s < a.n_slots; s++) {
		moe_pair p = moe_slot_at(a, t, (size_t)s);
		weight_view w = a.table[p.expert * MOE_PARTS + MOE_DOWN];
		float part = moe_any_dot<format>(&w, d, p.h);
		if (a.down_bias && !p.is_shared)
			part += a.down_bias[p.expert * (size_t)a.dim + d];
		sum += part * moe_slot_weight(a, t, (size_t)s);
	}
	if (lane_index() == 0)
		*y = sum;
}

/* The shared expert's weight: scale[t] = 1 / (1 + exp(-(router x[t]))); router (1, D). */
template <int format>
DEVICE void moe_scale(weight_view router, const uint16_t *x, int32_t n_tok, float *scale)
{
	size_t t = group_index_x() * MOE_ANY_WAVES + wave_index();
	if (t >= (size_t)n_tok)
		return;
	float dot = row_dot<format>(&router, 0, x + t * (size_t)router.k);
	if (lane_index() == 0)
		scale[t] = moe_sigmoid(dot);
}

#define MOE_ANY(name, format) \
	KERNEL(MOE_ANY_THREADS) void moe_any_up_##name##_kernel(moe_launch a) \
	{ \
		moe_any_up<format>(a); \
	} \
	KERNEL(MOE_ANY_THREADS) void moe_any_down_##name##_kernel(moe_launch a) \
	{ \
		moe_any_down<format>(a); \
	} \
	KERNEL(MOE_ANY_THREADS) \
	void moe_scale_##name##_kernel(weight_view router, const uint16_t *x, \
				       int32_t n_tok, float *scale) \
	{ \
		moe_scale<format>(router, x, n_tok, scale); \
	}

KERNEL(MOE_ANY_THREADS) void moe_any_up_mixed_kernel(moe_launch a)
{
	moe_any_up<MOE_ANY_MIXED>(a);
}

KERNEL(MOE_ANY_THREADS) void moe_any_down_mixed_kernel(moe_launch a)
{
	moe_any_down<MOE_ANY_MIXED>(a);
}

MOE_ANY(f32, WEIGHT_F32)
MOE_ANY(f16, WEIGHT_F16)
MOE_ANY(bf16, WEIGHT_BF16)
MOE_ANY(int4, WEIGHT_INT4)
#define UNITS MOE_ANY
#define UNIT_BLOCKS MOE_ANY
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef MOE_ANY
