/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/ngram_gate.h"

#include <math.h>

void ngram_gate_ref(const struct ngram_gate_args *a)
{
	size_t dim = (size_t)a->dim;
	for (size_t row = 0; row < (size_t)a->n_tok * (size_t)a->n_streams; row++) {
		const float *key = (const float *)a->key + row * dim;
		const float *query = (const float *)a->query + row * dim;
		const float *value = a->value + row / (size_t)a->n_streams * dim;
		double g = 0;
		for (size_t d = 0; d < dim; d++)
			g += (double)key[d] * query[d];
		g /= sqrt(a->dim);
		double root = sqrt(fmax(fabs(g), 1e-6));
		/* The sign of 0 is 0. */
		double gate = 1 / (1 + exp(g > 0 ? -root : g < 0 ? root : 0));
		for (size_t d = 0; d < dim; d++) {
			double y = gate * value[d];
			a->gated[row * dim + d] = (float)y;
			a->x[row * dim + d] = (float)(a->x[row * dim + d] + y);
		}
	}
}
