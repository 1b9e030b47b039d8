/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/moe_experts.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

static double *decode(const struct weight *w)
{
	size_t n = (size_t)w->n * (size_t)w->k;
	float *narrow = xmalloc(n * sizeof *narrow);
	double *wide = xmalloc(n * sizeof *wide);
	weight_decode(w, 0, w->n, narrow);
	for (size_t i = 0; i < n; i++)
		wide[i] = narrow[i];
	free(narrow);
	return wide;
}

/* sum (D) += weight * expert(x) */
static void one_expert(const struct moe_experts_args *a, int32_t e, double weight,
		       const float *x, double *sum)
{
	const struct experts *ex = a->experts;
	size_t n_ffn = (size_t)ex->gate[e].n, dim = (size_t)ex->gate[e].k;
	double *gate = decode(&ex->gate[e]), *up = decode(&ex->up[e]);
	double *down = decode(&ex->down[e]), *h = xcalloc(n_ffn, sizeof *h);
	for (size_t f = 0; f < n_ffn; f++) {
		double g = 0, u = 0;
		for (size_t d = 0; d < dim; d++) {
			g += gate[f * dim + d] * x[d];
			u += up[f * dim + d] * x[d];
		}
		h[f] = g / (1 + exp(-g)) * u;
	}
	for (size_t d = 0; d < dim; d++)
		for (size_t f = 0; f < n_ffn; f++)
			sum[d] += weight * down[d * n_ffn + f] * h[f];
	free(gate);
	free(up);
	free(down);
	free(h);
}

void moe_experts_ref(const struct moe_experts_args *a)
{
	size_t dim = (size_t)a->experts->gate[0].k;
	double *sum = xmalloc(dim * sizeof *sum);
	for (int32_t t = 0; t < a->n_tok; t++) {
		float *y = a->y + (size_t)t * dim;
		for (size_t d = 0; d < dim; d++)
			sum[d] = y[d];
		for (int32_t u = 0; u < a->n_used; u++) {
			size_t i = (size_t)t * (size_t)a->n_used + (size_t)u;
			one_expert(a, a->id[i], a->weight[i],
				   (const float *)a->x + (size_t)t * dim, sum);
		}
		for (size_t d = 0; d < dim; d++)
			y[d] = (float)sum[d];
	}
	free(sum);
}
