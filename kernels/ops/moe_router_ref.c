/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/moe_router.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/ops/linear.h"

static void choose_plain(const struct moe_router_args *a, const float *logit, int32_t *id)
{
	int32_t n = a->router->n;
	bool taken[MOE_ROUTER_MAX_EXPERTS] = {false};
	for (int32_t u = 0; u < a->n_used; u++) {
		int32_t best = -1;
		for (int32_t e = 0; e < n; e++)
			if (!taken[e] && (best < 0 || logit[e] > logit[best]))
				best = e;
		taken[best] = true;
		id[u] = best;
	}
}

static int32_t best_of(const double *v, int32_t n, bool *taken)
{
	int32_t best = -1;
	for (int32_t i = 0; i < n; i++)
		if (!taken[i] && (best < 0 || v[i] > v[best]))
			best = i;
	taken[best] = true;
	return best;
}

static double largest(const float *v, int32_t n)
{
	double top = v[0];
	for (int32_t e = 1; e < n; e++)
		top = fmax(top, v[e]);
	return top;
}

static void choose_shifted(const struct moe_router_args *a, const float *logit, int32_t *id)
{
	int32_t n = a->router->n;
	double choice[MOE_ROUTER_MAX_EXPERTS], all = 0, top = largest(logit, n);
	bool taken[MOE_ROUTER_MAX_EXPERTS] = {false};
	for (int32_t e = 0; e < n; e++)
		all += exp(logit[e] - top);
	for (int32_t e = 0; e < n; e++)
		choice[e] = exp(logit[e] - top) / all + a->bias[e];
	for (int32_t u = 0; u < a->n_used; u++)
		id[u] = best_of(choice, n, taken);
}

static void weigh_plain(const struct moe_router_args *a, const float *logit,
			const int32_t *id, float *weight)
{
	double all = 0, chosen = 0, top = largest(logit, a->router->n);
	for (int32_t u = 0; u < a->n_used; u++)
		chosen += exp(logit[id[u]] - top);
	for (int32_t e = 0; e < a->router->n; e++)
		all += exp(logit[e] - top);
	for (int32_t u = 0; u < a->n_used; u++)
		weight[u] = (float)(exp(logit[id[u]] - top) /
				    (a->norm_topk ? chosen : all));
}

/* Sum of the two largest of v. */
static double best_two(const double *v, int32_t n)
{
	double first = -INFINITY, second = -INFINITY;
	for (int32_t i = 0; i < n; i++) {
		if (v[i] > first) {
			second = first;
			first = v[i];
		} else if (v[i] > second) {
			second = v[i];
		}
	}
	return n > 1 ? first + second : first;
}

static double score(const struct moe_router_args *a, float logit)
{
	double x = logit;
	if (a->is_root)
		return sqrt(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
	return 1 / (1 + exp(-x));
}

static void choose_sigmoid(const struct moe_router_args *a, const float *logit, int32_t *id)
{
	int32_t n = a->router->n, size = n / a->n_groups;
	double choice[MOE_ROUTER_MAX_EXPERTS], group[MOE_ROUTER_MAX_EXPERTS];
	bool taken[MOE_ROUTER_MAX_EXPERTS], open[MOE_ROUTER_MAX_EXPERTS] = {false};
	for (int32_t e = 0; e < n; e++)
		choice[e] = score(a, logit[e]) + a->bias[e];
	for (int32_t g = 0; g < a->n_groups; g++)
		group[g] = best_two(choice + g * size, size);
	for (int32_t i = 0; i < a->n_groups_used; i++)
		best_of(group, a->n_groups, open);
	for (int32_t e = 0; e < n; e++)
		taken[e] = !open[e / size];
	for (int32_t u = 0; u < a->n_used; u++)
		id[u] = best_of(choice, n, taken);
}

static void weigh_sigmoid(const struct moe_router_args *a, const float *logit,
			  const int32_t *id, float *weight)
{
	double sum = 0;
	for (int32_t u = 0; u < a->n_used; u++)
		sum += score(a, logit[id[u]]);
	for (int32_t u = 0; u < a->n_used; u++)
		weight[u] = (float)(score(a, logit[id[u]]) /
				    (a->norm_topk ? sum + 1e-20 : 1) * a->scale);
}

void moe_router_ref_choose(const struct moe_router_args *a)
{
	size_t n = (size_t)a->n_used;
	for (int32_t t = 0; t < a->n_tok && a->fixed; t++)
		memcpy(a->id + (size_t)t * n, a->fixed + (size_t)a->token[t] * n,
		       n * sizeof *a->id);
	for (int32_t t = 0; t < a->n_tok && !a->fixed; t++)
		(a->is_sigmoid && a->bias ? choose_sigmoid
		 : a->is_shifted ? choose_shifted : choose_plain)(
			a, a->logits + (size_t)t * (size_t)a->router->n,
			a->id + (size_t)t * (size_t)a->n_used);
}

void moe_router_ref_weigh(const struct moe_router_args *a)
{
	size_t n = (size_t)a->n_tok * (size_t)a->n_used;
	for (int32_t t = 0; t < a->n_tok; t++)
		(a->is_sigmoid ? weigh_sigmoid : weigh_plain)(
			a, a->logits + (size_t)t * (size_t)a->router->n,
			a->id + (size_t)t * (size_t)a->n_used,
			a->weight + (size_t)t * (size_t)a->n_used);
	for (size_t i = 0; a->expert_scale && i < n; i++)
		a->weight[i] *= a->expert_scale[a->id[i]];
}

void moe_router_ref(const struct moe_router_args *a)
{
	if (a->norm)
		rms_norm_ref(a->norm);
	assert(a->router->n <= MOE_ROUTER_MAX_EXPERTS && a->n_used <= a->router->n);
	linear_ref(&(struct linear_args){
		.n_tok = a->n_tok, .x = a->x, .n_out = 1,
		.out = {{.w = a->router, .bias = a->logit_bias, .y = a->logits,
			 .is_f32 = true}}});
	moe_router_ref_choose(a);
	moe_router_ref_weigh(a);
}
