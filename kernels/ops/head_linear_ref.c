/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/head_linear.h"

#include <stdlib.h>

#include "base/alloc.h"

/* y = W_h x or W_h^T x, in double. w: (n, K). */
static void product(const struct head_linear_args *a, const float *w, const float *x,
		    double *y)
{
	int32_t k = a->w->k;
	for (int32_t i = 0; i < (a->is_transposed ? k : a->n); i++)
		y[i] = 0;
	for (int32_t r = 0; r < a->n; r++)
		for (int32_t i = 0; i < k; i++) {
			if (a->is_transposed)
				y[i] += (double)w[r * k + i] * x[r];
			else
				y[r] += (double)w[r * k + i] * x[i];
		}
}

void head_linear_ref(const struct head_linear_args *a)
{
	size_t n_out = (size_t)(a->is_transposed ? a->w->k : a->n);
	float *w = xmalloc((size_t)a->n * (size_t)a->w->k * sizeof *w);
	double *sum = xmalloc(n_out * sizeof *sum);
	for (int32_t h = 0; h < a->n_heads; h++) {
		int32_t first = h * a->pitch + a->first;
		weight_decode(a->w, first, first + a->n, w);
		for (int32_t t = 0; t < a->n_tok; t++) {
			size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
			float *y = (float *)a->y + head * (size_t)a->y_pitch;
			product(a, w, (const float *)a->x + head * (size_t)a->x_pitch, sum);
			for (size_t i = 0; i < n_out; i++)
				y[i] = (float)sum[i];
		}
	}
	free(w);
	free(sum);
}
