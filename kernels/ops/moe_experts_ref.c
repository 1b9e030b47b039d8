/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/moe_experts.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/ops/act_mul_one.h"

/* Rounds h between the two layers; here there is no rounding. */
#ifndef MOE_ACT
#define MOE_ACT(h) (h)
#endif

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

/* The weights of one expert, routed or shared. */
struct mlp {
	const struct weight *gate, *up, *down;
	const float *gate_bias, *up_bias, *down_bias; /* for this expert, or NULL */
	struct activation act;
};

/* sum (D) += weight * expert(x) */
static void add_expert(const struct mlp *m, double weight, const float *x, double *sum)
{
	size_t n_ffn = (size_t)m->gate->n, dim = (size_t)m->gate->k;
	double *gate = decode(m->gate), *up = decode(m->up);
	double *down = decode(m->down), *h = xcalloc(n_ffn, sizeof *h);
	for (size_t f = 0; f < n_ffn; f++) {
		double g = m->gate_bias ? m->gate_bias[f] : 0;
		double u = m->up_bias ? m->up_bias[f] : 0;
		for (size_t d = 0; d < dim; d++) {
			g += gate[f * dim + d] * x[d];
			u += up[f * dim + d] * x[d];
		}
		h[f] = MOE_ACT(act_mul_one(&m->act, g, u));
	}
	for (size_t d = 0; d < dim; d++) {
		sum[d] += m->down_bias ? weight * m->down_bias[d] : 0;
		for (size_t f = 0; f < n_ffn; f++)
			sum[d] += weight * down[d * n_ffn + f] * h[f];
	}
	free(gate);
	free(up);
	free(down);
	free(h);
}

static void one_expert(const struct moe_experts_args *a, int32_t e, double weight,
		       const float *x, double *sum)
{
	const struct experts *ex = a->experts;
	struct mlp m = {.gate = &ex->gate[e], .up = &ex->up[e], .down = &ex->down[e],
			.act = ex->act};
	if (ex->gate_bias) {
		m.gate_bias = ex->gate_bias + (size_t)e * (size_t)m.gate->n;
		m.up_bias = ex->up_bias + (size_t)e * (size_t)m.gate->n;
		m.down_bias = ex->down_bias + (size_t)e * (size_t)m.down->n;
	}
	add_expert(&m, weight, x, sum);
}

static void shared_expert(const struct experts *ex, const float *x, double *sum)
{
	const struct mlp m = {.gate = ex->shared_gate, .up = ex->shared_up,
			      .down = ex->shared_down};
	double weight = 1;
	if (ex->shared_router) {
		double *row = decode(ex->shared_router), dot = 0;
		for (int32_t d = 0; d < ex->shared_router->k; d++)
			dot += row[d] * x[d];
		weight = 1 / (1 + exp(-dot));
		free(row);
	}
	add_expert(&m, weight, x, sum);
}

void moe_experts_ref(const struct moe_experts_args *a)
{
	if (a->router)
		moe_router_ref(a->router);
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
		if (a->experts->shared_gate)
			shared_expert(a->experts, (const float *)a->x + (size_t)t * dim,
				      sum);
		for (size_t d = 0; d < dim; d++)
			y[d] = (float)sum[d];
	}
	free(sum);
}
