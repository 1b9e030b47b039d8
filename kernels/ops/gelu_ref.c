/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gelu.h"

#include <math.h>

void gelu_ref(const struct gelu_args *a)
{
	float *x = a->x;
	for (size_t i = 0; i < (size_t)a->n_tok * (size_t)a->dim; i++) {
		double v = x[i];
		double p = a->is_tanh
				   ? 0.5 * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
				   : 0.5 * erfc(-v / sqrt(2));
		x[i] = (float)(v * p);
	}
}
