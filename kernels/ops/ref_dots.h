/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of the rows of a matrix with one x, for references. Each sum is in the order of its
 * columns. Several rows go side by side, because a sum alone waits for each of its additions.
 * Tests also compile these references with float in place of double, so these are inline
 * functions, not exported ones.
 */
#pragma once
#include <stddef.h>

enum { REF_ROWS = 8 /* rows side by side */ };

static inline size_t ref_blocks(size_t n_rows)
{
	return (n_rows + REF_ROWS - 1) / REF_ROWS;
}

/* to (n, REF_ROWS) = up to REF_ROWS rows (n_rows, n); those that are missing are 0. */
static inline void ref_pack(const float *rows, size_t n_rows, size_t n, double *to)
{
	for (size_t k = 0; k < n; k++)
		for (size_t r = 0; r < REF_ROWS; r++)
			to[k * REF_ROWS + r] = r < n_rows ? rows[r * n + k] : 0;
}

/* sum (REF_ROWS) += by * w x; w (n, REF_ROWS) as ref_pack makes it, x (n). Eight variables,
 * because compilers make vectors of them. */
static inline void ref_add(const double *w, double by, const double *x, size_t n, double *sum)
{
	double a = sum[0], b = sum[1], c = sum[2], d = sum[3];
	double e = sum[4], f = sum[5], g = sum[6], h = sum[7];
	for (size_t k = 0; k < n; k++, w += REF_ROWS) {
		a += by * w[0] * x[k];
		b += by * w[1] * x[k];
		c += by * w[2] * x[k];
		d += by * w[3] * x[k];
		e += by * w[4] * x[k];
		f += by * w[5] * x[k];
		g += by * w[6] * x[k];
		h += by * w[7] * x[k];
	}
	sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
	sum[4] = e, sum[5] = f, sum[6] = g, sum[7] = h;
}
