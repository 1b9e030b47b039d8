/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/gather_rows.h
 * LAYOUT    x (T, D) f32, row (R), y (R, D) f32
 * GEOMETRY  workgroups of 256 threads: (D over 256, R)
 * PRECISION copies bits
 * ROOFLINE  bound by launch overhead
 * TRIED     no other form
 * SEE       kernels/ops/gather_rows_ref.c
 */
#include "kernels/device/dialect.h"

enum { GATHER_ROWS_THREADS = 256 };

KERNEL(GATHER_ROWS_THREADS)
void gather_rows_kernel(int32_t dim, const float *x, const int32_t *row, float *y)
{
	int32_t i = (int32_t)(group_index_x() * GATHER_ROWS_THREADS + thread_index());
	size_t r = group_index_y(), d = (size_t)dim;
	if (i < dim)
		y[r * d + (size_t)i] = x[(size_t)row[r] * d + (size_t)i];
}
