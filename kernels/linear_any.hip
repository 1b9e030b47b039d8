/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/linear.h, one weight
 * LAYOUT    any weight format and shape; x (T, K) f16; y (T, N) f32, or f16 where
 *           neither is_f32 nor adds
 * GEOMETRY  workgroups of four waves: (N over 4, T), an output a wave
 * PRECISION f32 sums, 32 lanes apart; a row alone has the same bits
 * ROOFLINE  reads the weight once a token. What has no kernel of its own comes here:
 *           a missing table row or an odd shape costs speed, never correctness
 * TRIED     nothing else
 * SEE       kernels/dequant.h, kernels/linear_int4_dot.h, kernels/linear_ref.c
 */
#include "kernels/dequant.h"
#include "kernels/linear_store.h"

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
LINEAR_ANY(int8, WEIGHT_INT8)
LINEAR_ANY(fp8, WEIGHT_FP8)
LINEAR_ANY(nvfp4, WEIGHT_NVFP4)
LINEAR_ANY(mxfp4, WEIGHT_MXFP4)
LINEAR_ANY(q4_0, WEIGHT_Q4_0)
LINEAR_ANY(q4_1, WEIGHT_Q4_1)
LINEAR_ANY(q5_0, WEIGHT_Q5_0)
LINEAR_ANY(q5_1, WEIGHT_Q5_1)
LINEAR_ANY(q8_0, WEIGHT_Q8_0)
LINEAR_ANY(q2_k, WEIGHT_Q2_K)
LINEAR_ANY(q3_k, WEIGHT_Q3_K)
LINEAR_ANY(q4_k, WEIGHT_Q4_K)
LINEAR_ANY(q5_k, WEIGHT_Q5_K)
LINEAR_ANY(q6_k, WEIGHT_Q6_K)
LINEAR_ANY(iq2_xxs, WEIGHT_IQ2_XXS)
LINEAR_ANY(iq4_nl, WEIGHT_IQ4_NL)
LINEAR_ANY(iq4_xs, WEIGHT_IQ4_XS)
LINEAR_ANY(mxfp4_block, WEIGHT_MXFP4_BLOCK)
