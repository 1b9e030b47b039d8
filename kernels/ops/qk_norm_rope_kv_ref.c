/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/qk_norm_rope_kv.h"

#include <assert.h>
#include <math.h>

#define MAX_HEAD 1024

/* Normalise and rotate one head from in (K) to out (K), which may be the same memory. */
static void one_head(const struct qk_norm_rope_kv_args *a, const float *in,
		     const float *norm, const float *rope, double times, float *out)
{
	double h[MAX_HEAD], squares = 0;
	assert(a->head_dim <= MAX_HEAD);
	for (int i = 0; i < a->head_dim; i++)
		squares += (double)in[i] * in[i];
	double scale = 1 / sqrt(squares / a->head_dim + (double)a->eps);
	for (int i = 0; i < a->head_dim; i++)
		h[i] = norm ? in[i] * scale * (a->norm_after_rope ? 1 : norm[i]) : in[i];
	for (int i = 0; i < a->n_freq; i++) {
		double c = rope[2 * i], s = rope[2 * i + 1];
		double x = h[i], y = h[i + a->n_freq];
		h[i] = x * c - y * s;
		h[i + a->n_freq] = y * c + x * s;
	}
	for (int i = 0; i < a->head_dim; i++)
		out[i] = (float)(times * h[i] * (norm && a->norm_after_rope ? norm[i] : 1));
}

void qk_norm_rope_kv_ref(const struct qk_norm_rope_kv_args *a)
{
	size_t dim = (size_t)a->head_dim;
	assert(a->kv.type == DTYPE_F32);
	for (int32_t t = 0; t < a->n_tok; t++) {
		const float *rope = a->rope + (size_t)t * (size_t)a->n_freq * 2;
		float *q = (float *)a->q + (size_t)(t * a->n_heads) * dim;
		size_t kv_row = (size_t)(t * a->n_kv_heads) * dim;
		const float *k = (const float *)a->k + kv_row;
		const float *v = (const float *)a->v + kv_row;
		for (int32_t h = 0; h < a->n_heads; h++, q += dim) {
			const float *from = q;
			if (a->q_from)
				from = (const float *)a->q_from +
				       (size_t)(t * a->n_heads + h) * (size_t)a->q_pitch;
			one_head(a, from, a->q_norm, rope, a->q_scale ? a->q_scale[t] : 1, q);
		}
		for (int32_t g = 0; g < a->n_kv_heads; g++, k += dim, v += dim) {
			size_t at = kv_pages_at(&a->kv, a->n_kv_heads, a->head_dim,
						a->slot[t], g);
			one_head(a, k, a->k_norm, rope, 1, (float *)a->kv.k + at);
			for (size_t i = 0; i < dim; i++)
				((float *)a->kv.v)[at + i] = v[i];
		}
	}
}
