/* SPDX-License-Identifier: Apache-2.0
 *
 * MLA: the per-head products, and the preparation of queries and compressed keys for
 * attention.
 */
#include <assert.h>
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"

enum { MAX_DIM = 1024 };

static const float *head_x(const struct head_linear_args *a, int t, int h)
{
	size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
	return (const float *)a->x + head * (size_t)a->x_pitch;
}

static float *head_y(const struct head_linear_args *a, int t, int h)
{
	size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
	return (float *)a->y + head * (size_t)a->y_pitch;
}

/* Loop body of the pool: each index is a tile of a head's rows. */
static void run_heads(void *arg, int begin, int end)
{
	const struct head_linear_args *a = arg;
	int n_tiles = cpu_tiles(a->n);
	float sums[TILE_TOK][TILE_ROWS];
	const float *x[TILE_TOK];
	for (int i = begin; i < end; i++) {
		int h = i / n_tiles, n0 = i % n_tiles * TILE_ROWS;
		int n_rows = MIN(TILE_ROWS, a->n - n0);
		for (int t0 = 0, n_tok; t0 < a->n_tok; t0 += n_tok) {
			n_tok = MIN(TILE_TOK, a->n_tok - t0);
			for (int j = 0; j < n_tok; j++)
				x[j] = head_x(a, t0 + j, h);
			cpu_tile(a->w, h * a->pitch + a->first + n0, x, n_tok, sums);
			for (int j = 0; j < n_tok; j++)
				memcpy(head_y(a, t0 + j, h) + n0, sums[j],
				       (size_t)n_rows * sizeof(float));
		}
	}
}

/* Loop body of the pool: each index is a head. Its weight rows are decoded once and
 * accumulated one by one. */
static void run_heads_transposed(void *arg, int begin, int end)
{
	const struct head_linear_args *a = arg;
	int k = a->w->k;
	float row[MAX_DIM];
	for (int h = begin; h < end; h++) {
		for (int t = 0; t < a->n_tok; t++)
			memset(head_y(a, t, h), 0, (size_t)k * sizeof(float));
		for (int r = 0; r < a->n; r++) {
			cpu_tile_decode(a->w, h * a->pitch + a->first + r, 0, k, row);
			for (int t = 0; t < a->n_tok; t++) {
				float *y = head_y(a, t, h), x = head_x(a, t, h)[r];
				for (int i = 0; i < k; i++)
					y[i] += x * row[i];
			}
		}
	}
}

enum status cpu_head_linear(struct backend *b, const struct head_linear_args *a)
{
	size_t work = (size_t)a->n_tok * (size_t)a->w->k;
	if (a->is_transposed && a->w->k > MAX_DIM)
		return E_UNSUPPORTED;
	if (a->is_transposed)
		cpu_for(b, a->n_heads, work * (size_t)a->n, run_heads_transposed, a);
	else
		cpu_for(b, a->n_heads * cpu_tiles(a->n), work * TILE_ROWS, run_heads, a);
	return OK;
}

static void rotate(const struct mla_rope_kv_args *a, const float *in, const float *rope,
		 float scale, float *out)
{
	int n = a->rope_dim / 2, step = a->is_interleaved ? 2 : 1;
	int other = a->is_interleaved ? 1 : n;
	for (int i = 0; i < n; i++) {
		float c = rope[2 * i], s = rope[2 * i + 1];
		float x = in[i * step], y = in[i * step + other];
		out[i] = (x * c - y * s) * scale;
		out[i + n] = (y * c + x * s) * scale;
	}
}

struct prepare {
	struct backend *b;
	const struct mla_rope_kv_args *a;
};

static void run_prepare(void *arg, int begin, int end)
{
	const struct prepare *job = arg;
	const struct mla_rope_kv_args *a = job->a;
	float key[CPU_MAX_HEAD];
	int n_c = a->c_dim, n = a->c_dim + a->rope_dim;
	for (int t = begin; t < end; t++) {
		/* A model without rope has none. */
		const float *rope = a->rope_dim ? a->rope + (size_t)t * (size_t)a->rope_dim : NULL;
		const float *from = (const float *)a->kv_from + (size_t)t * (size_t)n;
		float scale = 1 / sqrtf(squares_of(from, n_c) / (float)n_c + a->eps);
		for (int i = 0; i < n_c; i++)
			key[i] = from[i] * scale * a->norm[i];
		rotate(a, from + n_c, rope, 1, key + n_c);
		cpu_kv_store(job->b, a->kv.k, kv_pages_at(&a->kv, 1, n, a->slot[t], 0),
			     key, n);
		for (int h = 0; h < a->n_heads; h++) {
			size_t head = (size_t)t * (size_t)a->n_heads + (size_t)h;
			rotate(a, (const float *)a->q_from + head * (size_t)a->q_pitch +
					a->q_pitch - a->rope_dim,
			     rope, a->q_scale, (float *)a->q + head * (size_t)n + n_c);
		}
	}
}

enum status cpu_mla_rope_kv(struct backend *b, const struct mla_rope_kv_args *a)
{
	assert(a->kv.type == b->kv_type);
	if (a->c_dim + a->rope_dim > CPU_MAX_HEAD)
		return E_UNSUPPORTED;
	struct prepare job = {b, a};
	cpu_for(b, a->n_tok, (size_t)(a->n_heads + 4) * (size_t)a->rope_dim * 4,
		run_prepare, &job);
	return OK;
}
