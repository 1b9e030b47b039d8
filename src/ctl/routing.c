/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/routing.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Relative error of weights: sums of a few exponentials in float, against the same in double. */
#define WEIGHT_TOLERANCE 1e-3
/* Two values that differ by less may come out in either order, because float sums are
 * rounded. */
#define ROUNDING 1e-6

struct routing_values {
	int n_tok;
	double *value; /* (T, E) */
	int32_t *id;   /* (T, U) */
};

void routing_init(struct routing *r, int n_layers)
{
	*r = (struct routing){.n_layers = n_layers};
	r->exact = xcalloc((size_t)n_layers, sizeof *r->exact);
}

void routing_deinit(struct routing *r)
{
	for (int i = 0; i < r->n_layers; i++) {
		free(r->exact[i].value);
		free(r->exact[i].id);
	}
	free(r->exact);
	free(r->ties);
	*r = (struct routing){0};
}

/* The score of an expert with this logit, in sigmoid routing. */
static double score_of(const struct moe_router_args *a, double logit)
{
	if (a->is_root)
		return sqrt(logit > 0 ? logit + log1p(exp(-logit)) : log1p(exp(logit)));
	return 1 / (1 + exp(-logit));
}

/* The values that experts of token t are chosen by, (E). */
static void values(const struct moe_router_args *a, int t, double *out)
{
	size_t n = (size_t)a->router->n;
	const float *logit = a->logits + (size_t)t * n;
	double top = -INFINITY, sum = 0;
	for (size_t e = 0; e < n; e++)
		top = fmax(top, (double)logit[e]);
	for (size_t e = 0; e < n; e++)
		sum += exp((double)logit[e] - top);
	for (size_t e = 0; e < n; e++) {
		double bias = a->bias ? (double)a->bias[e] : 0;
		out[e] = a->is_sigmoid   ? score_of(a, (double)logit[e]) + bias
			 : a->is_shifted ? exp((double)logit[e] - top) / sum + bias
					 : (double)logit[e] - top - log(sum);
	}
}

bool routing_keep(void *routing, int i_layer, const struct moe_router_args *a)
{
	struct routing *r = routing;
	assert(i_layer < r->n_layers);
	struct routing_values *v = &r->exact[i_layer];
	size_t t = (size_t)a->n_tok, e = (size_t)a->router->n, u = (size_t)a->n_used;
	v->n_tok = a->n_tok;
	v->value = xrealloc(v->value, t * e * sizeof *v->value);
	v->id = xrealloc(v->id, t * u * sizeof *v->id);
	for (int i = 0; i < a->n_tok; i++)
		values(a, i, v->value + (size_t)i * e);
	memcpy(v->id, a->id, t * u * sizeof *v->id);
	return false;
}

static bool has(const int32_t *id, int32_t n, int32_t e)
{
	for (int32_t u = 0; u < n; u++)
		if (id[u] == e)
			return true;
	return false;
}

/* Compares two choices. *out_left: the best expert that only `want` has; *out_taken: the worst
 * that only `got` has, by `value`. False: both have the same experts. */
static bool differ(const double *value, const int32_t *want, const int32_t *got, int32_t n,
		   int32_t *out_left, int32_t *out_taken)
{
	int32_t left = -1, taken = -1;
	for (int32_t u = 0; u < n; u++) {
		if (!has(got, n, want[u]) && (left < 0 || value[want[u]] > value[left]))
			left = want[u];
		if (!has(want, n, got[u]) && (taken < 0 || value[got[u]] < value[taken]))
			taken = got[u];
	}
	if (left < 0 && taken < 0)
		return false;
	/* If a choice has an expert twice, only one side may lack an expert. */
	*out_left = left < 0 ? taken : left;
	*out_taken = taken < 0 ? left : taken;
	return true;
}

/* True if experts and weights of token t are those that the reference computes from the same
 * logits. */
static bool is_reference(const struct moe_router_args *a, int t, const double *value)
{
	int32_t n = a->n_used, left, taken;
	int32_t id[MOE_ROUTER_MAX_EXPERTS];
	float weight[MOE_ROUTER_MAX_EXPERTS];
	struct moe_router_args one = *a;
	const int32_t *got = a->id + (size_t)t * (size_t)n;
	one.n_tok = 1;
	one.logits = a->logits + (size_t)t * (size_t)a->router->n;
	one.id = id;
	one.weight = weight;
	for (int32_t u = 0; u < n; u++)
		if (got[u] < 0 || got[u] >= a->router->n || has(got + u + 1, n - u - 1,
								  got[u]))
			return false;
	moe_router_ref_choose(&one);
	if (differ(value, id, got, n, &left, &taken) &&
	    value[left] - value[taken] > ROUNDING)
		return false;
	memcpy(id, got, (size_t)n * sizeof *id);
	moe_router_ref_weigh(&one);
	for (int32_t u = 0; u < n; u++) {
		double is = (double)a->weight[(size_t)t * (size_t)n + (size_t)u];
		if (!(fabs(is - (double)weight[u]) <=
		      WEIGHT_TOLERANCE * fmax(1, (double)weight[u])))
			return false;
	}
	return true;
}

static void add_deltas(struct routing *r, const double *ours, const double *exact, int32_t n)
{
	for (int32_t e = 0; e < n; e++) {
		double delta = fabs(ours[e] - exact[e]);
		if (!(delta <= r->max_delta)) /* NaN is the worst there is */
			r->max_delta = isnan(delta) ? INFINITY : delta;
		r->sum_delta += delta;
	}
	r->n_delta += n;
}

static void add_tie(struct routing *r, const struct routing_tie *tie)
{
	size_t n = (size_t)r->n_ties++;
	if ((n & (n - 1)) == 0)
		r->ties = xrealloc(r->ties, 2 * (n + 1) * sizeof *r->ties);
	r->ties[n] = *tie;
	r->widest = fmax(r->widest, tie->margin);
}

/* Gives token t the exact run's experts. */
static void put_exact(const struct moe_router_args *a, int t, const int32_t *id)
{
	size_t n = (size_t)a->n_used;
	struct moe_router_args one = *a;
	one.n_tok = 1;
	one.logits += (size_t)t * (size_t)a->router->n;
	one.id += (size_t)t * n;
	one.weight += (size_t)t * n;
	memcpy(one.id, id, n * sizeof *id);
	moe_router_ref_weigh(&one);
}

bool routing_compare(void *routing, int i_layer, const struct moe_router_args *a)
{
	struct routing *r = routing;
	const struct routing_values *v = &r->exact[i_layer];
	assert(i_layer < r->n_layers && v->n_tok == a->n_tok);
	int32_t n = a->router->n;
	double *ours = xmalloc((size_t)n * sizeof *ours);
	bool changed = false;
	for (int t = 0; t < a->n_tok; t++) {
		const double *exact = v->value + (size_t)t * (size_t)n;
		const int32_t *want = v->id + (size_t)t * (size_t)a->n_used;
		const int32_t *got = a->id + (size_t)t * (size_t)a->n_used;
		struct routing_tie tie = {r->i_case, r->i_token + t, i_layer, 0, 0, 0};
		r->n_choices++;
		values(a, t, ours);
		add_deltas(r, ours, exact, n);
		if (!is_reference(a, t, ours)) {
			r->n_faults++;
		} else if (differ(exact, want, got, a->n_used, &tie.left, &tie.taken)) {
			tie.margin = exact[tie.left] - exact[tie.taken];
			add_tie(r, &tie);
			put_exact(a, t, want);
			changed = true;
		}
	}
	free(ours);
	return changed;
}

double routing_mean(const struct routing *r)
{
	return r->n_delta ? r->sum_delta / (double)r->n_delta : 0;
}

bool routing_is_behind_tie(const struct routing *r, int i_case, int i_token)
{
	for (int64_t i = 0; i < r->n_ties; i++) {
		const struct routing_tie *e = &r->ties[i];
		bool is_last = e->i_layer == r->n_layers - 1;
		if (e->i_case == i_case && e->i_token <= i_token &&
		    (!is_last || e->i_token == i_token))
			return true;
	}
	return false;
}

bool routing_is_pass(const struct routing *r, double max_delta, double max_mean)
{
	return r->n_choices > 0 && r->n_faults == 0 && r->max_delta <= max_delta &&
	       routing_mean(r) <= max_mean &&
	       (double)r->n_ties <= ROUTING_MAX_SHARE * (double)r->n_choices;
}
