/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/plain.h
 * LAYOUT    fill_words: y (n) words; scale_rows: x, y (T, D) f16, scale (T) f32; to_act:
 *           x (n) f32, y (n) f16
 * GEOMETRY  workgroups of 256 threads, one number a thread; scale_rows: (D over 256, T)
 * PRECISION rounded once, to infinity beyond 65504
 * ROOFLINE  bound by launch overhead at decode, then by memory
 * TRIED     no other form
 * SEE       kernels/ops/plain_ref.c
 */
#include "kernels/device/dialect.h"

enum { PLAIN_THREADS = 256 };

KERNEL(PLAIN_THREADS)
void fill_words_kernel(int32_t n, int32_t value, int32_t *y)
{
	int32_t i = (int32_t)(group_index_x() * PLAIN_THREADS + thread_index());
	if (i < n)
		y[i] = value;
}

KERNEL(PLAIN_THREADS)
void scale_rows_kernel(int32_t dim, const float *scale, const uint16_t *x, uint16_t *y)
{
	int32_t i = (int32_t)(group_index_x() * PLAIN_THREADS + thread_index());
	size_t at = (size_t)group_index_y() * (size_t)dim + (size_t)i;
	if (i < dim)
		y[at] = f32_to_f16(scale[group_index_y()] * f16_to_f32(x[at]));
}

KERNEL(PLAIN_THREADS)
void to_act_kernel(uint64_t n, const float *x, uint16_t *y)
{
	uint64_t i = (uint64_t)group_index_x() * PLAIN_THREADS + thread_index();
	if (i < n)
		y[i] = f32_to_f16(x[i]);
}
