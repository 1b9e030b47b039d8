/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/delta_rule.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

#define EPS 1e-6

static void unit(const float *x, int32_t n, double *out)
{
	double squares = EPS;
	for (int32_t i = 0; i < n; i++)
		squares += (double)x[i] * x[i];
	for (int32_t i = 0; i < n; i++)
		out[i] = x[i] / sqrt(squares);
}

static double number(const struct head_view *v, int32_t t, int32_t c)
{
	return ((const float *)v->p)[head_view_at(v, t, c)];
}

/* Adds change * k to one row of the state, and returns the row's product with q. */
static double changed(double *s, const double *q, const double *k, int32_t n, double change)
{
	double y = 0;
	for (int32_t i = 0; i < n; i++) {
		s[i] += change * k[i];
		y += s[i] * q[i];
	}
	return y;
}

/* The key head whose keys and queries value head h reads. */
static int32_t key_head(const struct delta_rule_args *a, int32_t h)
{
	return a->heads_tiled ? h % a->n_k_heads : h / (a->n_v_heads / a->n_k_heads);
}

/* The step of token t: softplus(a a_scale + dt_bias) of channel c. */
static double step_of(const struct delta_rule_args *a, int32_t t, int32_t c)
{
	double scale = a->a_scale != 0 ? a->a_scale : 1;
	double step = number(&a->a, t, c) * scale + a->dt_bias[c];
	return step > 20 ? step : log1p(exp(step));
}

/* What token t leaves of column i of the state of value head h. */
static double kept_of(const struct delta_rule_args *a, int32_t t, int32_t h, int32_t i)
{
	int32_t c = a->by_channel ? h * a->k_dim + i : h;
	if (a->g_min < 0)
		return exp(a->g_min /
			   (1 + exp(a->decay[h] * (number(&a->a, t, c) + a->dt_bias[c]))));
	return exp(a->decay[h] * step_of(a, t, c));
}

/* Token t of value head h by Mamba-2's rule. */
static void state_space_token(const struct delta_rule_args *a, int32_t t, int32_t h, double *s,
			      double *q)
{
	int32_t n = a->k_dim, n_keys = a->n_k_heads * n, hk = key_head(a, h);
	double *k = q + n;
	const float *row = (const float *)a->qkv +
			   (size_t)t * (size_t)(2 * n_keys + a->n_v_heads * a->v_dim);
	double softplus = step_of(a, t, h), keep = exp(a->decay[h] * softplus);
	for (int32_t i = 0; i < n; i++) {
		q[i] = row[hk * n + i];
		k[i] = row[n_keys + hk * n + i];
	}
	for (int32_t v = 0; v < a->v_dim; v++, s += n) {
		double x = row[2 * n_keys + h * a->v_dim + v];
		for (int32_t i = 0; i < n; i++)
			s[i] *= keep;
		double y = changed(s, q, k, n, softplus * x);
		((float *)a->y)[(size_t)(t * a->n_v_heads + h) * (size_t)a->v_dim +
				(size_t)v] = (float)(y + a->skip[h] * x);
	}
}

/* Compute token t of value head h; q: work memory for q, k and what is kept, K numbers each. */
static void one_token(const struct delta_rule_args *a, int32_t t, int32_t h, double *s,
		      double *q)
{
	int32_t n = a->k_dim, n_keys = a->n_k_heads * n, hk = key_head(a, h);
	double *k = q + n, *keep = k + n;
	const float *row = (const float *)a->qkv +
			   (size_t)t * (size_t)(2 * n_keys + a->n_v_heads * a->v_dim);
	unit(row + hk * n, n, q);
	unit(row + n_keys + hk * n, n, k);
	for (int32_t i = 0; i < n; i++)
		keep[i] = kept_of(a, t, h, i);
	double beta = 1 / (1 + exp(-number(&a->b, t, h)));
	for (int32_t v = 0; v < a->v_dim; v++, s += n) {
		double seen = 0;
		for (int32_t i = 0; i < n; i++) {
			s[i] *= keep[i];
			seen += s[i] * k[i];
		}
		double change = beta * (row[2 * n_keys + h * a->v_dim + v] - seen);
		double y = changed(s, q, k, n, change);
		((float *)a->y)[(size_t)(t * a->n_v_heads + h) * (size_t)a->v_dim +
				(size_t)v] = (float)(y / sqrt(n));
	}
}

static float *slot_of(const struct delta_rule_args *a, int32_t slot, int32_t h)
{
	size_t n = (size_t)a->v_dim * (size_t)a->k_dim;
	return a->state + ((size_t)slot * (size_t)a->n_v_heads + (size_t)h) * n;
}

static void keep_state(const struct delta_rule_args *a, int32_t slot, int32_t h,
		       const double *s)
{
	float *out = slot >= 0 ? slot_of(a, slot, h) : NULL;
	for (int32_t i = 0; out && i < a->v_dim * a->k_dim; i++)
		out[i] = (float)s[i];
}

static void one_head(const struct delta_rule_args *a, int32_t b, int32_t h)
{
	size_t n = (size_t)a->v_dim * (size_t)a->k_dim, k_dim = (size_t)a->k_dim;
	double *s = xcalloc(n + 3 * k_dim, sizeof *s);
	if (a->states.from[b] >= 0)
		for (size_t i = 0; i < n; i++)
			s[i] = slot_of(a, a->states.from[b], h)[i];
	for (int32_t t = a->first_tok[b]; t < a->first_tok[b + 1]; t++) {
		(a->skip ? state_space_token : one_token)(a, t, h, s, s + n);
		if (a->states.save_at[b] == t)
			keep_state(a, a->states.save[b], h, s);
	}
	keep_state(a, a->states.to[b], h, s);
	free(s);
}

void delta_rule_ref(const struct delta_rule_args *a)
{
	for (int32_t b = 0; b < a->n_seq; b++)
		for (int32_t h = 0; h < a->n_v_heads; h++)
			one_head(a, b, h);
	if (a->norm)
		gated_norm_ref(a->norm);
}
