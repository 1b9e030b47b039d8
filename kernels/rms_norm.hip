/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/rms_norm.h
 * LAYOUT    x (T, D) f32; add, y (T, D) f16; weight (D) f32
 * GEOMETRY  one workgroup of RMS_NORM_THREADS a token; LDS 4 bytes a wave
 * PRECISION squares summed in f32: each thread its own, then a tree; y rounded once,
 *           to infinity where beyond 65504. A thread reads back only what it wrote.
 * ROOFLINE  bound by its launch: 8 KB read and 12 KB written at D = 2048
 * TRIED     nothing else: the second reading of x comes from the cache
 * SEE       kernels/rms_norm_ref.c
 */
#include "kernels/dialect.h"

enum { RMS_NORM_THREADS = 512 };

KERNEL(RMS_NORM_THREADS)
void rms_norm_kernel(int32_t dim, float eps, float *x, const uint16_t *add,
		     const float *weight, uint16_t *y)
{
	LDS(float, part, RMS_NORM_THREADS / WAVE);
	size_t row = (size_t)group_index_x() * (size_t)dim;
	int32_t first = (int32_t)thread_index();
	float squares = 0;
	for (int32_t i = first; i < dim; i += RMS_NORM_THREADS) {
		float v = x[row + (size_t)i];
		if (add) {
			v += f16_to_f32(add[row + (size_t)i]);
			x[row + (size_t)i] = v;
		}
		squares += v * v;
	}
	squares = group_sum<RMS_NORM_THREADS>(squares, part);
	float scale = fast_rsqrt(squares * fast_rcp((float)dim) + eps);
	for (int32_t i = first; i < dim; i += RMS_NORM_THREADS)
		y[row + (size_t)i] = f32_to_f16(x[row + (size_t)i] * scale * weight[i]);
}
