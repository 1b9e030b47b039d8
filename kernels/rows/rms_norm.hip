/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/rms_norm.h
 * LAYOUT    x (T, D) f32; add, y (T, D) f16, y perhaps within wider rows; weight
 *           (n_weights, D) f32
 * GEOMETRY  one workgroup of RMS_NORM_THREADS a token, eight neighbouring elements a
 *           thread; LDS 4 bytes a wave
 * PRECISION squares summed in f32 as in rms_norm_row.h; y rounded once, to infinity
 *           beyond 65504. A thread reads back only what it wrote. y and y_low have 22
 *           bits together
 * ROOFLINE  bound by launch overhead: 8 KB read and 12 KB written at D = 2048. At decode
 *           the linear layer after it does the norm (linear_int4_dot.h)
 * TRIED     one element at a time a thread: 3.5 us instead of 2.9 on an NVIDIA H200. The
 *           second read of x hits the cache
 * SEE       kernels/ops/rms_norm_ref.c
 */
#include "kernels/rows/rms_norm_row.h"

KERNEL(RMS_NORM_THREADS)
void rms_norm_kernel(int32_t dim, float eps, float *x, const uint16_t *add,
		     const float *weight, uint16_t *y, int32_t y_pitch, int32_t n_weights)
{
	LDS(float, part, RMS_NORM_WAVES);
	if (n_weights > 1)
		weight += group_index_x() % (uint32_t)n_weights * (size_t)dim;
	size_t row = (size_t)group_index_x() * (size_t)dim;
	size_t out = (size_t)group_index_x() * (size_t)y_pitch;
	int32_t first = (int32_t)thread_index() * 8;
	for (int32_t at = first; add && at < dim; at += RMS_NORM_THREADS * 8)
		for (int32_t i = at; i < at + 8 && i < dim; i++)
			x[row + (size_t)i] += f16_to_f32(add[row + (size_t)i]);
	rms_norm_held<RMS_NORM_THREADS> held;
	rms_norm_hold<RMS_NORM_THREADS>(x + row, dim, &held);
	float scale = rms_norm_scale<RMS_NORM_THREADS>(held, x + row, dim, eps, part);
	for (int32_t at = first; at < dim; at += RMS_NORM_THREADS * 8) {
		if (dim % 8 == 0 && y_pitch % 8 == 0) {
			rms_norm_8 in = rms_norm_load(x + row, at, dim);
			*(u32x4 *)(y + out + (size_t)at) = rms_norm_piece(
				in, rms_norm_load(weight, at, dim), scale);
			continue;
		}
		for (int32_t i = at; i < at + 8 && i < dim; i++)
			y[out + (size_t)i] =
				rms_norm_one(x[row + (size_t)i], scale, weight[i]);
	}
}

/* Like rms_norm_kernel, with the same bits of y. y_low: what rounding took from y,
 * times `times`. */
KERNEL(RMS_NORM_THREADS)
void rms_norm_low_kernel(int32_t dim, float eps, const float *x, const float *weight,
			 uint16_t *y, uint16_t *y_low, float times)
{
	LDS(float, part, RMS_NORM_WAVES);
	size_t row = (size_t)group_index_x() * (size_t)dim;
	rms_norm_held<RMS_NORM_THREADS> held;
	rms_norm_hold<RMS_NORM_THREADS>(x + row, dim, &held);
	float scale = rms_norm_scale<RMS_NORM_THREADS>(held, x + row, dim, eps, part);
	for (int32_t i = (int32_t)thread_index(); i < dim; i += RMS_NORM_THREADS) {
		size_t at = row + (size_t)i;
		uint16_t high = rms_norm_one(x[at], scale, weight[i]);
		y[at] = high;
		y_low[at] = f32_to_f16((x[at] * scale * weight[i] - f16_to_f32(high)) * times);
	}
}

/* sum (T, D) f32 = times * (sum + the norm of x), without rounding to f16. */
KERNEL(RMS_NORM_THREADS)
void rms_norm_sum_kernel(int32_t dim, float eps, const float *x, const float *weight,
			 float *sum, float times)
{
	LDS(float, part, RMS_NORM_WAVES);
	size_t row = (size_t)group_index_x() * (size_t)dim;
	rms_norm_held<RMS_NORM_THREADS> held;
	rms_norm_hold<RMS_NORM_THREADS>(x + row, dim, &held);
	float scale = rms_norm_scale<RMS_NORM_THREADS>(held, x + row, dim, eps, part);
	for (int32_t i = (int32_t)thread_index(); i < dim; i += RMS_NORM_THREADS)
		sum[row + (size_t)i] =
			(sum[row + (size_t)i] + x[row + (size_t)i] * scale * weight[i]) * times;
}
