/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/hyper.h"

#include <math.h>

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

void hyper_low_ref(const struct hyper_low_args *a)
{
	for (size_t i = 0; i < (size_t)a->n_tok * (size_t)a->dim; i++) {
		double x = (double)a->x[i] / a->n_streams;
		((float *)a->y)[i] = (float)(x * sigmoid(x));
	}
}

void hyper_mix_ref(const struct hyper_mix_args *a)
{
	size_t dim = (size_t)a->dim, n_streams = (size_t)a->n_streams;
	for (size_t t = 0; t < (size_t)a->n_tok; t++)
		for (size_t d = 0; d < dim; d++) {
			double sum = 0;
			for (size_t s = 0; s < n_streams; s++) {
				size_t at = (t * n_streams + s) * dim + d;
				sum += sigmoid(a->gate[at]) * ((const float *)a->n)[at];
			}
			a->x[t * dim + d] = a->y ? 0 : (float)(sum / a->n_streams);
			if (a->y)
				((float *)a->y)[t * dim + d] = (float)(sum / a->n_streams);
		}
}

void hyper_add_ref(const struct hyper_add_args *a)
{
	size_t dim = (size_t)a->dim, n_streams = (size_t)a->n_streams;
	for (size_t row = 0; row < (size_t)a->n_tok * n_streams; row++)
		for (size_t d = 0; d < dim; d++) {
			double y = a->y[row / n_streams * dim + d];
			float *x = a->x + row * dim + d;
			if (a->gate)
				*x = (float)(*x + 2 * sigmoid(a->gate[row] / a->n_streams) * y);
			else
				*x = (float)y;
		}
}
