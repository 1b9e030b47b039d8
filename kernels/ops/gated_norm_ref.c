/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gated_norm.h"

#include <math.h>

static double gate_of(const struct gated_norm_args *a, double z)
{
	return (a->is_sigmoid ? 1 : z) / (1 + exp(-z));
}

static double gate(const struct gated_norm_args *a, int32_t t, int32_t c)
{
	double by = a->z_scale != 0 ? (double)a->z_scale : 1;
	return gate_of(a, by * ((const float *)a->z.p)[head_view_at(&a->z, t, c)]);
}

void gated_norm_ref(const struct gated_norm_args *a)
{
	for (int32_t i = 0; i < a->n_tok * a->n_heads; i++) {
		const float *x = (const float *)a->x + (size_t)i * (size_t)a->dim;
		float *y = (float *)a->y + (size_t)i * (size_t)a->dim;
		int32_t t = i / a->n_heads, first = i % a->n_heads * a->dim;
		const float *weight = a->weight + (a->gates_first ? first : 0);
		double squares = 0;
		for (int32_t d = 0; d < a->dim; d++) {
			double v = a->gates_first ? x[d] * gate(a, t, first + d) : x[d];
			squares += v * v;
		}
		double scale = a->skips_norm ? 1 : 1 / sqrt(squares / a->dim + (double)a->eps);
		for (int32_t d = 0; d < a->dim; d++)
			y[d] = (float)(x[d] * scale * weight[d] * gate(a, t, first + d));
	}
}
