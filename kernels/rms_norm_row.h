/* SPDX-License-Identifier: Apache-2.0
 *
 * The root mean square of a row, with the same bits whoever asks: 512 lanes take four
 * neighbours each in turn; a wave adds up its 32 lanes, then the 16 waves are added.
 * A workgroup of fewer waves has several of these in each.
 */
#pragma once
#include "kernels/dialect.h"

enum { RMS_NORM_THREADS = 512, RMS_NORM_WAVES = RMS_NORM_THREADS / WAVE };

DEVICE float rms_norm_add4(float sum, const float *x, int32_t i, int32_t dim)
{
	if (dim % 4 == 0) {
		if (i >= dim)
			return sum;
		u32x4 v = *(const u32x4 *)(x + i);
		UNROLL
		for (int j = 0; j < 4; j++) {
			float f = bits_cast<float>((uint32_t)v[j]);
			sum = fma_f32(f, f, sum);
		}
		return sum;
	}
	for (int32_t j = i; j < i + 4 && j < dim; j++)
		sum = fma_f32(x[j], x[j], sum);
	return sum;
}

/* 1 / sqrt(mean(x^2) + eps) of x (dim), by all threads of a workgroup; part:
 * RMS_NORM_WAVES floats of LDS, free after the next group_barrier(). */
template <int THREADS>
DEVICE float rms_norm_scale(const float *x, int32_t dim, float eps, float *part)
{
	constexpr int EACH = RMS_NORM_WAVES * WAVE / THREADS, WAVES = THREADS / WAVE;
	float sum[EACH] = {};
	for (int32_t at = 0; at < dim; at += RMS_NORM_THREADS * 4)
		UNROLL
		for (int v = 0; v < EACH; v++)
			sum[v] = rms_norm_add4(
				sum[v], x,
				at + ((int32_t)thread_index() + v * WAVES * WAVE) * 4, dim);
	UNROLL
	for (int v = 0; v < EACH; v++) {
		float all = wave_sum(sum[v]);
		if (lane_index() == 0)
			part[(int32_t)wave_index() + v * WAVES] = all;
	}
	group_barrier();
	uint32_t lane = lane_index();
	float squares = wave_sum(lane < RMS_NORM_WAVES ? part[lane] : 0);
	return fast_rsqrt(squares * fast_rcp((float)dim) + eps);
}

/* Elements [i, i + 8) of the row, i a multiple of 8 below dim, as halves. */
DEVICE u32x4 rms_norm_piece(const float *x, const float *weight, int32_t i, float scale)
{
	u32x4 out;
	UNROLL
	for (int h = 0; h < 2; h++) {
		u32x4 v = *(const u32x4 *)(x + i + 4 * h);
		u32x4 w = *(const u32x4 *)(weight + i + 4 * h);
		uint32_t half[4];
		UNROLL
		for (int j = 0; j < 4; j++)
			half[j] = f32_to_f16(bits_cast<float>((uint32_t)v[j]) * scale *
					     bits_cast<float>((uint32_t)w[j]));
		out[2 * h] = half[0] | half[1] << 16;
		out[2 * h + 1] = half[2] | half[3] << 16;
	}
	return out;
}
