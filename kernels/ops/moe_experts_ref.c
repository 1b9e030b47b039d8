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

/* The weights of one expert, routed or shared, as numbers. */
struct expert_f64 {
	double *gate, *up;  /* (n_ffn, dim) */
	double *down;       /* (dim, n_ffn) */
	size_t n_ffn, dim;
	const float *gate_bias, *up_bias, *down_bias; /* for this expert, or NULL */
	struct activation act;
};

static struct expert_f64 mlp_decode(const struct weight *gate, const struct weight *up,
			     const struct weight *down)
{
	return (struct expert_f64){.gate = decode(gate), .up = decode(up), .down = decode(down),
			    .n_ffn = (size_t)gate->n, .dim = (size_t)gate->k};
}

static void mlp_deinit(struct expert_f64 *m)
{
	free(m->gate);
	free(m->up);
	free(m->down);
}

/* h (n_ffn) = act(gate · x, up · x). Two rows of each at once, here and below: a sum alone
 * waits for each of its additions. Each sum is in the order of its columns. */
static void add_gates(const struct expert_f64 *m, const float *x, double *h)
{
	size_t n_ffn = m->n_ffn, dim = m->dim;
	for (size_t f = 0; f < n_ffn; f += 2) {
		size_t last = MIN(f + 1, n_ffn - 1); /* f again where their number is odd */
		const double *gate = m->gate + f * dim, *gate2 = m->gate + last * dim;
		const double *up = m->up + f * dim, *up2 = m->up + last * dim;
		double g = m->gate_bias ? m->gate_bias[f] : 0;
		double u = m->up_bias ? m->up_bias[f] : 0;
		double g2 = m->gate_bias ? m->gate_bias[last] : 0;
		double u2 = m->up_bias ? m->up_bias[last] : 0;
		for (size_t d = 0; d < dim; d++) {
			g += gate[d] * x[d];
			u += up[d] * x[d];
			g2 += gate2[d] * x[d];
			u2 += up2[d] * x[d];
		}
		h[f] = MOE_ACT(act_mul_one(&m->act, g, u));
		h[last] = MOE_ACT(act_mul_one(&m->act, g2, u2));
	}
}

/* sum (D) += weight * expert(x) */
static void add_expert(const struct expert_f64 *m, double weight, const float *x, double *sum)
{
	size_t n_ffn = m->n_ffn, dim = m->dim;
	double *h = xcalloc(n_ffn, sizeof *h);
	add_gates(m, x, h);
	for (size_t d = 0; d < dim; d += 2) {
		size_t last = MIN(d + 1, dim - 1);
		const double *down = m->down + d * n_ffn, *down2 = m->down + last * n_ffn;
		double s = sum[d] + (m->down_bias ? weight * m->down_bias[d] : 0);
		double s2 = sum[last] + (m->down_bias ? weight * m->down_bias[last] : 0);
		for (size_t f = 0; f < n_ffn; f++) {
			s += weight * down[f] * h[f];
			s2 += weight * down2[f] * h[f];
		}
		sum[d] = s;
		sum[last] = s2;
	}
	free(h);
}

/* Expert e of *m, decoded at its first use: many tokens may choose it. */
static const struct expert_f64 *routed_expert(const struct experts *ex, int32_t e,
					      struct expert_f64 *m)
{
	if (m->gate)
		return m;
	*m = mlp_decode(&ex->gate[e], &ex->up[e], &ex->down[e]);
	m->act = ex->act;
	if (ex->gate_bias) {
		m->gate_bias = ex->gate_bias + (size_t)e * m->n_ffn;
		m->up_bias = ex->up_bias + (size_t)e * m->n_ffn;
		m->down_bias = ex->down_bias + (size_t)e * m->dim;
	}
	return m;
}

/* How much the shared expert counts for this token: 1 without a router of its own. */
static double shared_weight(const struct experts *ex, const float *x)
{
	if (!ex->shared_router)
		return 1;
	double *row = decode(ex->shared_router), dot = 0;
	for (int32_t d = 0; d < ex->shared_router->k; d++)
		dot += row[d] * x[d];
	free(row);
	return 1 / (1 + exp(-dot));
}

void moe_experts_ref(const struct moe_experts_args *a)
{
	if (a->router)
		moe_router_ref(a->router);
	const struct experts *ex = a->experts;
	size_t dim = (size_t)ex->gate[0].k, n_experts = (size_t)ex->n;
	double *sum = xmalloc(dim * sizeof *sum);
	struct expert_f64 *routed = xcalloc(n_experts, sizeof *routed), shared = {0};
	if (ex->shared_gate)
		shared = mlp_decode(ex->shared_gate, ex->shared_up, ex->shared_down);
	if (ex->act.kind == ACT_RELU)
		shared.act = ex->act;
	for (int32_t t = 0; t < a->n_tok; t++) {
		float *y = a->y + (size_t)t * dim;
		const float *x = (const float *)a->x + (size_t)t * dim;
		for (size_t d = 0; d < dim; d++)
			sum[d] = y[d];
		for (int32_t u = 0; u < a->n_used; u++) {
			size_t i = (size_t)t * (size_t)a->n_used + (size_t)u;
			const struct expert_f64 *m = routed_expert(ex, a->id[i], &routed[a->id[i]]);
			add_expert(m, a->weight[i], x, sum);
		}
		if (ex->shared_gate)
			add_expert(&shared, shared_weight(ex, x), x, sum);
		for (size_t d = 0; d < dim; d++)
			y[d] = (float)sum[d];
	}
	for (size_t e = 0; e < n_experts; e++)
		mlp_deinit(&routed[e]);
	mlp_deinit(&shared);
	free(routed);
	free(sum);
}
