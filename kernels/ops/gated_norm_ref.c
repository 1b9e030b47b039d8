/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gated_norm.h"

#include <math.h>

void gated_norm_ref(const struct gated_norm_args *a)
{
	for (int32_t i = 0; i < a->n_tok * a->n_heads; i++) {
		const float *x = (const float *)a->x + (size_t)i * (size_t)a->dim;
		float *y = (float *)a->y + (size_t)i * (size_t)a->dim;
		int32_t t = i / a->n_heads, first = i % a->n_heads * a->dim;
		double squares = 0;
		for (int32_t d = 0; d < a->dim; d++)
			squares += (double)x[d] * x[d];
		double scale = 1 / sqrt(squares / a->dim + (double)a->eps);
		for (int32_t d = 0; d < a->dim; d++) {
			double z = ((const float *)a->z.p)[head_view_at(&a->z, t,
									first + d)];
			y[d] = (float)(x[d] * scale * a->weight[d] * z / (1 + exp(-z)));
		}
	}
}
