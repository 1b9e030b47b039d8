/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h, one weight
 * LAYOUT    any weight format and shape; x (T, K) f16; y (T, N): f32 if is_f32 or adds,
 *           else f16
 * GEOMETRY  workgroups of four waves: (N over 4, T), one output a wave
 * PRECISION f32 sums, elements 32 lanes apart; a row has the same bits alone and in a
 *           batch
 * ROOFLINE  reads the weight once a token. This is the fallback for weights without a
 *           kernel of their own: a missing table row or an odd shape costs speed, never
 *           correctness
 * TRIED     no other form
 * SEE       kernels/weights/dequant.h, kernels/linear/linear_int4_dot.h,
 *           kernels/ops/linear_ref.c
 */
#include "kernels/weights/dequant.h"
#include "kernels/linear/linear_store.h"

enum { LINEAR_ANY_WAVES = 4, LINEAR_ANY_THREADS = LINEAR_ANY_WAVES * WAVE };

template <int format>
DEVICE void linear_any(weight_view w, const uint16_t *x, const float *bias, void *y,
		       uint32_t store)
{
	size_t n = group_index_x() * LINEAR_ANY_WAVES + wave_index();
	size_t t = group_index_y();
	if (n >= (size_t)w.n)
		return;
	float sum = row_dot<format>(&w, n, x + t * (size_t)w.k);
	if (lane_index() == 0)
		linear_store(y, t * (size_t)w.n + n, bias ? sum + bias[n] : sum, store);
}

#define LINEAR_ANY(name, format) \
	KERNEL(LINEAR_ANY_THREADS) \
	void linear_any_##name##_kernel(weight_view w, const uint16_t *x, \
					const float *bias, void *y, uint32_t store) \
	{ \
		linear_any<format>(w, x, bias, y, store); \
	}
LINEAR_ANY(f32, WEIGHT_F32)
LINEAR_ANY(f16, WEIGHT_F16)
LINEAR_ANY(bf16, WEIGHT_BF16)
LINEAR_ANY(int4, WEIGHT_INT4)
#define UNITS LINEAR_ANY
#define UNIT_BLOCKS LINEAR_ANY
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef LINEAR_ANY
