/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/attention.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

static size_t row_of(const struct attention_args *a, int32_t t, int32_t s, int32_t g,
		     int32_t dim)
{
	const int32_t *table = a->page_table +
			       (size_t)a->seq_of[t] * (size_t)a->max_pages_per_seq;
	int32_t size = a->kv.page_size;
	int32_t slot = table[s / size] * size + s % size;
	return kv_pages_at(&a->kv, a->n_kv_heads, dim, slot, g);
}

enum { KEYS = 4 /* sums side by side, because one sum waits for each of its additions */ };

/* dot[i] = q . k[i], each in the order of its columns. */
static void dot_keys(const float *q, const float *const *k, int dim, double *dot)
{
	double a = 0, b = 0, c = 0, d = 0;
	for (int i = 0; i < dim; i++) {
		a += (double)q[i] * k[0][i];
		b += (double)q[i] * k[1][i];
		c += (double)q[i] * k[2][i];
		d += (double)q[i] * k[3][i];
	}
	dot[0] = a, dot[1] = b, dot[2] = c, dot[3] = d;
}

/* Scores p[s] of the positions that token t sees. An incomplete last group of KEYS repeats the
 * last position. */
static void score(const struct attention_args *a, int32_t t, int32_t g, const float *q,
		  double *p)
{
	int32_t n_seen = attention_last(a, t) + 1;
	for (int32_t s = attention_first(a, t); s < n_seen; s += KEYS) {
		const float *k[KEYS];
		double dot[KEYS];
		for (int32_t i = 0; i < KEYS; i++)
			k[i] = (const float *)a->kv.k +
			       row_of(a, t, MIN(s + i, n_seen - 1), g, a->head_dim);
		dot_keys(q, k, a->head_dim, dot);
		for (int32_t i = 0; i < MIN(KEYS, n_seen - s); i++)
			p[s + i] = dot[i] * (double)a->scale;
	}
}

/* y of one query head. p: work memory for n_ctx_max weights, and then v_dim sums. */
static void one_head(const struct attention_args *a, int32_t t, int32_t h, double *p)
{
	int32_t g = h / (a->n_heads / a->n_kv_heads), n_seen = attention_last(a, t) + 1;
	int32_t first = attention_first(a, t);
	int32_t v_dim = attention_v_dim(a), v_row = a->kv.v ? v_dim : a->head_dim;
	size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
	const float *values = a->kv.v ? a->kv.v : a->kv.k;
	const float *q = (const float *)a->q + head * (size_t)a->head_dim;
	float *y = (float *)a->y + head * (size_t)v_dim;
	double max = a->sinks ? a->sinks[h] : -INFINITY, sum = 0;
	score(a, t, g, q, p);
	for (int32_t s = first; s < n_seen; s++)
		max = fmax(max, p[s]);
	for (int32_t s = first; s < n_seen; s++) {
		p[s] = exp(p[s] - max);
		sum += p[s];
	}
	if (a->sinks)
		sum += exp(a->sinks[h] - max);
	double *acc = p + a->n_ctx_max;
	for (int i = 0; i < v_dim; i++)
		acc[i] = 0;
	for (int32_t s = first; s < n_seen; s++) {
		const float *v = values + row_of(a, t, s, g, v_row);
		for (int i = 0; i < v_dim; i++)
			acc[i] += p[s] * v[i];
	}
	for (int i = 0; i < v_dim; i++)
		y[i] = (float)(acc[i] / sum);
}

void attention_ref(const struct attention_args *a)
{
	double *p = xmalloc((size_t)(a->n_ctx_max + attention_v_dim(a)) * sizeof *p);
	assert(a->kv.type == DTYPE_F32);
	if (a->fused)
		qk_norm_rope_kv_ref(a->fused);
	for (int32_t t = 0; t < a->n_tok; t++)
		for (int32_t h = 0; h < a->n_heads; h++)
			one_head(a, t, h, p);
	free(p);
}
