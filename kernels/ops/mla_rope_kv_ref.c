/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/mla_rope_kv.h"

#include <assert.h>
#include <math.h>

static void rotate(const struct mla_rope_kv_args *a, const float *in, const float *rope,
		 double scale, float *out)
{
	int32_t n = a->rope_dim / 2;
	for (int32_t i = 0; i < n; i++) {
		double c = rope[2 * i], s = rope[2 * i + 1];
		double x = a->is_interleaved ? in[2 * i] : in[i];
		double y = a->is_interleaved ? in[2 * i + 1] : in[i + n];
		out[i] = (float)((x * c - y * s) * scale);
		out[i + n] = (float)((y * c + x * s) * scale);
	}
}

void mla_rope_kv_ref(const struct mla_rope_kv_args *a)
{
	int32_t n_c = a->c_dim, n = a->c_dim + a->rope_dim;
	assert(a->kv.type == DTYPE_F32);
	for (int32_t t = 0; t < a->n_tok; t++) {
		const float *rope = a->rope + (size_t)t * (size_t)a->rope_dim;
		const float *from = (const float *)a->kv_from + (size_t)t * (size_t)n;
		float *key = (float *)a->kv.k + kv_pages_at(&a->kv, 1, n, a->slot[t], 0);
		double squares = 0;
		for (int32_t i = 0; i < n_c; i++)
			squares += (double)from[i] * from[i];
		double scale = 1 / sqrt(squares / n_c + (double)a->eps);
		for (int32_t i = 0; i < n_c; i++)
			key[i] = (float)(from[i] * scale * a->norm[i]);
		rotate(a, from + n_c, rope, 1, key + n_c);
		for (int32_t h = 0; h < a->n_heads; h++) {
			size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
			rotate(a, (const float *)a->q_from + head * (size_t)a->q_pitch +
					a->q_pitch - a->rope_dim,
			     rope, (double)a->q_scale,
			     (float *)a->q + head * (size_t)n + n_c);
		}
	}
}
