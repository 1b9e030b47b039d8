/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/moe_experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/ops/act_mul_one.h"
#include "kernels/ops/ref_dots.h"

/* Rounds h between the two layers; here there is no rounding. */
#ifndef MOE_ACT
#define MOE_ACT(h) (h)
#endif

/* All rows of w, packed by REF_ROWS (ref_dots.h). */
static double *decode(const struct weight *w)
{
	size_t n = (size_t)w->n, k = (size_t)w->k;
	float *rows = xmalloc(n * k * sizeof *rows);
	double *packed = xmalloc(ref_blocks(n) * REF_ROWS * k * sizeof *packed);
	weight_decode(w, 0, w->n, rows);
	for (size_t i = 0; i < n; i += REF_ROWS)
		ref_pack(rows + i * k, MIN(n - i, (size_t)REF_ROWS), k, packed + i * k);
	free(rows);
	return packed;
}

/* The weights of one expert, routed or shared, as numbers. */
struct expert_f64 {
	double *gate, *up;  /* n_ffn rows of dim */
	double *down;       /* dim rows of n_ffn */
	size_t n_ffn, dim;
	const float *gate_bias, *up_bias, *down_bias; /* for this expert, or NULL */
	struct activation act;
};

/* What an adapter adds to an expert's products for one token. */
struct adapter_f64 {
	const struct lora_part *part; /* (MOE_LORA_PARTS); NULL: nothing */
	double scale;
};

/* y[n] += scale B (A x) of the part, whose B has n rows. */
static void add_adapter(const struct adapter_f64 *of, int which, const double *x, size_t k,
			double *y, size_t n)
{
	static const enum dtype types[] = {
		[LORA_F32] = DTYPE_F32, [LORA_F16] = DTYPE_F16, [LORA_BF16] = DTYPE_BF16};
	const struct lora_part *p = of->part ? &of->part[which] : NULL;
	for (int32_t r = 0; p && r < p->rank; r++) {
		double low = 0;
		for (size_t i = 0; i < k; i++)
			low += blocks_float(p->a, types[p->type], (size_t)r * k + i) * x[i];
		low *= of->scale * p->scale;
		for (size_t i = 0; i < n; i++)
			y[i] += low * blocks_float(p->b, types[p->type], (size_t)r * n + i);
	}
}

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

/* h (n_ffn) = act(gate · x, up · x) */
static void add_gates(const struct expert_f64 *m, const struct adapter_f64 *of, const double *x,
		      double *h)
{
	size_t n_ffn = m->n_ffn, dim = m->dim;
	double *more = xcalloc(2 * n_ffn, sizeof *more);
	add_adapter(of, MOE_LORA_GATE, x, dim, more, n_ffn);
	add_adapter(of, MOE_LORA_UP, x, dim, more + n_ffn, n_ffn);
	for (size_t f = 0; f < n_ffn; f += REF_ROWS) {
		double g[REF_ROWS] = {0}, u[REF_ROWS] = {0};
		size_t n = MIN(n_ffn - f, (size_t)REF_ROWS);
		for (size_t i = 0; i < n && m->gate_bias; i++) {
			g[i] = m->gate_bias[f + i];
			u[i] = m->up_bias[f + i];
		}
		ref_add(m->gate + f * dim, 1, x, dim, g);
		ref_add(m->up + f * dim, 1, x, dim, u);
		for (size_t i = 0; i < n; i++)
			h[f + i] = MOE_ACT(act_mul_one(&m->act, g[i] + more[f + i],
						       u[i] + more[n_ffn + f + i]));
	}
	free(more);
}

/* sum (D) += weight * expert(x) */
static void add_expert(const struct expert_f64 *m, const struct adapter_f64 *of, double weight,
		       const double *x, double *sum)
{
	size_t n_ffn = m->n_ffn, dim = m->dim;
	double *h = xcalloc(n_ffn, sizeof *h);
	struct adapter_f64 weighted = {of->part, of->scale * weight};
	add_gates(m, of, x, h);
	add_adapter(&weighted, MOE_LORA_DOWN, h, n_ffn, sum, dim);
	for (size_t d = 0; d < dim; d += REF_ROWS) {
		double s[REF_ROWS] = {0};
		size_t n = MIN(dim - d, (size_t)REF_ROWS);
		for (size_t i = 0; i < n; i++)
			s[i] = sum[d + i] + (m->down_bias ? weight * m->down_bias[d + i] : 0);
		ref_add(m->down + d * n_ffn, weight, h, n_ffn, s);
		memcpy(sum + d, s, n * sizeof *s);
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
static double shared_weight(const struct experts *ex, const double *x)
{
	if (!ex->shared_router)
		return 1;
	double *row = decode(ex->shared_router), dot[REF_ROWS] = {0};
	ref_add(row, 1, x, (size_t)ex->shared_router->k, dot);
	free(row);
	return 1 / (1 + exp(-dot[0]));
}

/* What token t's adapter adds to expert e. */
static struct adapter_f64 adapter_of(const struct moe_experts_args *a, int32_t t, int32_t e)
{
	const struct moe_lora *l = a->lora;
	if (!l || l->adapter[t] < 0)
		return (struct adapter_f64){NULL, 0};
	size_t row = (size_t)l->adapter[t] * (size_t)a->experts->n + (size_t)e;
	return (struct adapter_f64){l->part + row * MOE_LORA_PARTS, l->scale[t]};
}

void moe_experts_ref(const struct moe_experts_args *a)
{
	if (a->router)
		moe_router_ref(a->router);
	const struct experts *ex = a->experts;
	size_t dim = (size_t)ex->gate[0].k, n_experts = (size_t)ex->n;
	double *sum = xmalloc(2 * dim * sizeof *sum), *x = sum + dim;
	struct expert_f64 *routed = xcalloc(n_experts, sizeof *routed), shared = {0};
	if (ex->shared_gate)
		shared = mlp_decode(ex->shared_gate, ex->shared_up, ex->shared_down);
	shared.act = experts_shared_act(ex);
	for (int32_t t = 0; t < a->n_tok; t++) {
		float *y = a->y + (size_t)t * dim;
		for (size_t d = 0; d < dim; d++) {
			x[d] = ((const float *)a->x)[(size_t)t * dim + d];
			sum[d] = y[d];
		}
		for (int32_t u = 0; u < a->n_used; u++) {
			size_t i = (size_t)t * (size_t)a->n_used + (size_t)u;
			const struct expert_f64 *m = routed_expert(ex, a->id[i], &routed[a->id[i]]);
			const struct adapter_f64 of = adapter_of(a, t, a->id[i]);
			add_expert(m, &of, a->weight[i], x, sum);
		}
		const struct adapter_f64 none = {NULL, 0};
		if (ex->shared_gate)
			add_expert(&shared, &none, shared_weight(ex, x), x, sum);
		for (size_t d = 0; d < dim; d++)
			y[d] = (float)sum[d];
	}
	for (size_t e = 0; e < n_experts; e++)
		mlp_deinit(&routed[e]);
	mlp_deinit(&shared);
	free(routed);
	free(sum);
}
