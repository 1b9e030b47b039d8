/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/layer_norm.h"

#include <math.h>

void layer_norm_ref(const struct layer_norm_args *a)
{
	size_t dim = (size_t)a->dim;
	for (size_t t = 0; t < (size_t)a->n_tok; t++) {
		const float *x = a->x + t * dim;
		float *y = (float *)a->y + t * dim;
		size_t i = a->n_weights ? t % (size_t)a->n_weights : 0;
		const float *weight = a->weight + i * dim;
		double mean = 0, var = 0;
		for (size_t d = 0; d < dim; d++)
			mean += x[d];
		mean /= a->dim;
		for (size_t d = 0; d < dim; d++)
			var += (x[d] - mean) * (x[d] - mean);
		double scale = 1 / sqrt(var / a->dim + (double)a->eps);
		for (size_t d = 0; d < dim; d++)
			y[d] = (float)((x[d] - mean) * scale * (double)weight[d] +
				       (a->bias ? (double)a->bias[d] : 0));
	}
}
