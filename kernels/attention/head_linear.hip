/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/head_linear.h
 * LAYOUT    any weight format that linear_any takes; x, y f16 in wider rows
 * GEOMETRY  plain: one output a wave, (n over 4 * H, T) workgroups of four waves.
 *           transposed: a thread has one output of four tokens, (K over 128 * H, T over
 *           4) workgroups of 128 threads; neighbouring threads read neighbouring elements
 *           of a row. No LDS.
 * PRECISION f32 sums; a token has the same bits alone and in a batch
 * ROOFLINE  decode of 128 heads of 128 x 512 in bf16: 16.8 MB for each of the two
 *           products, bound by memory. Prefill reads the weight again, from cache, for
 *           every token (plain) or every four (transposed). 2 x 128 x 512 products a head
 *           are few compared with attention's.
 * TRIED     no other form
 * SEE       kernels/weights/dequant.h, kernels/ops/head_linear_ref.c
 */
#include "kernels/weights/dequant.h"
#include "kernels/attention/mla_launch.h"

template <int format> DEVICE void head_linear(const weight_view &w, head_linear_launch a)
{
	int32_t groups = (a.n + HEAD_LINEAR_WAVES - 1) / HEAD_LINEAR_WAVES;
	int32_t h = (int32_t)group_index_x() / groups;
	int32_t r = (int32_t)(group_index_x() % (uint32_t)groups) * HEAD_LINEAR_WAVES +
		    (int32_t)wave_index();
	if (r >= a.n)
		return;
	size_t head = (size_t)group_index_y() * (size_t)a.n_heads + (size_t)h;
	float sum = row_dot<format>(&w, (size_t)(h * a.pitch + a.first + r),
				    a.x + head * (size_t)a.x_pitch);
	if (lane_index() == 0)
		a.y[head * (size_t)a.y_pitch + (size_t)r] = f32_to_f16(sum);
}

template <int format> DEVICE void head_linear_t(const weight_view &w, head_linear_launch a)
{
	int32_t groups = (w.k + HEAD_LINEAR_THREADS - 1) / HEAD_LINEAR_THREADS;
	int32_t h = (int32_t)group_index_x() / groups;
	int32_t i = (int32_t)(group_index_x() % (uint32_t)groups) * HEAD_LINEAR_THREADS +
		    (int32_t)thread_index();
	int32_t t0 = (int32_t)group_index_y() * HEAD_LINEAR_TOK;
	if (i >= w.k)
		return;
	float sum[HEAD_LINEAR_TOK] = {0, 0, 0, 0};
	const uint16_t *x[HEAD_LINEAR_TOK];
	UNROLL
	for (int32_t j = 0; j < HEAD_LINEAR_TOK; j++) { /* beyond n_tok: repeat the last token */
		int32_t t = t0 + j < a.n_tok ? t0 + j : a.n_tok - 1;
		x[j] = a.x + ((size_t)t * (size_t)a.n_heads + (size_t)h) * (size_t)a.x_pitch;
	}
	for (int32_t r = 0; r < a.n; r++) {
		float v = weight_at<format>(&w, (size_t)(h * a.pitch + a.first + r), i);
		UNROLL
		for (int32_t j = 0; j < HEAD_LINEAR_TOK; j++)
			sum[j] += v * f16_to_f32(x[j][r]);
	}
	UNROLL
	for (int32_t j = 0; j < HEAD_LINEAR_TOK; j++) {
		size_t head = (size_t)(t0 + j) * (size_t)a.n_heads + (size_t)h;
		if (t0 + j < a.n_tok)
			a.y[head * (size_t)a.y_pitch + (size_t)i] = f32_to_f16(sum[j]);
	}
}

#define HEAD_LINEAR(name, format) \
	KERNEL(HEAD_LINEAR_WAVES * WAVE) \
	void head_linear_##name##_kernel(weight_view w, head_linear_launch a) \
	{ \
		head_linear<format>(w, a); \
	} \
	KERNEL(HEAD_LINEAR_THREADS) \
	void head_linear_t_##name##_kernel(weight_view w, head_linear_launch a) \
	{ \
		head_linear_t<format>(w, a); \
	}
HEAD_LINEAR(f32, WEIGHT_F32)
HEAD_LINEAR(f16, WEIGHT_F16)
HEAD_LINEAR(bf16, WEIGHT_BF16)
HEAD_LINEAR(int4, WEIGHT_INT4)
#define UNITS HEAD_LINEAR
#define UNIT_BLOCKS HEAD_LINEAR
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef HEAD_LINEAR
