/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/copy_words.h
 * LAYOUT    x, y (n) words
 * GEOMETRY  workgroups of 256 threads, one word a thread
 * PRECISION copies bits
 * ROOFLINE  one round trip over the bus: some 10 KB, all in flight at once
 * TRIED     no other form
 * SEE       kernels/ops/copy_words_ref.c
 */
#include "kernels/device/dialect.h"

enum { COPY_WORDS_THREADS = 256 };

KERNEL(COPY_WORDS_THREADS)
void copy_words_kernel(int32_t n, const int32_t *x, int32_t *y)
{
	int32_t i = (int32_t)(group_index_x() * COPY_WORDS_THREADS + thread_index());
	if (i < n)
		y[i] = x[i];
}
