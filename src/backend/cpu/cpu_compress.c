/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed keys beside windows (kernels/ops/compress.h). A row is computed by one thread, in
 * the order of positions.
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

enum { MAX_DIM = 1024, AT_ONCE = 64 };

struct compress_job {
	struct backend *b;
	const void *a;
};

static void normalise(float *x, int32_t dim, float eps, const float *weight)
{
	float scale = 1 / sqrtf(squares_of(x, dim) / (float)dim + eps);
	for (int32_t d = 0; d < dim; d++)
		x[d] = x[d] * (weight ? scale * weight[d] : scale);
}

static void rotate(float *x, int32_t dim, int32_t n_freq, const float *rope, float sign)
{
	float *tail = x + dim - 2 * n_freq;
	for (int32_t i = 0; i < n_freq; i++) {
		float c = rope[2 * i], s = sign * rope[2 * i + 1];
		float a = tail[2 * i], b = tail[2 * i + 1];
		tail[2 * i] = a * c - b * s;
		tail[2 * i + 1] = b * c + a * s;
	}
}

static void rope_tails(void *arg, int begin, int end)
{
	const struct compress_job *j = arg;
	const struct rope_tail_args *a = j->a;
	size_t dim = (size_t)a->dim;
	float x[MAX_DIM];
	for (int row = begin; row < end; row++) {
		size_t t = (size_t)(row / a->n_heads), at = (size_t)row * dim;
		memcpy(x, (const float *)a->x + at, dim * sizeof *x);
		if (a->normalises)
			normalise(x, a->dim, a->eps, a->norm);
		rotate(x, a->dim, a->n_freq, a->rope + t * (size_t)a->n_freq * 2,
		     a->is_back ? -1 : 1);
		if (a->y)
			memcpy((float *)a->y + at, x, dim * sizeof *x);
		else
			cpu_kv_store(j->b, a->to.rows, row_pages_token(&a->to, a->slot[t]) * dim,
				     x, a->dim);
	}
}

enum status cpu_rope_tail(struct backend *b, const struct rope_tail_args *a)
{
	const struct compress_job job = {b, a};
	if (a->dim > MAX_DIM)
		return E_UNSUPPORTED;
	cpu_for(b, a->n_tok * a->n_heads, (size_t)a->dim * 4, rope_tails, &job);
	return OK;
}

static void put_inputs(void *arg, int begin, int end)
{
	const struct compress_job *j = arg;
	const struct compress_args *a = j->a;
	int32_t wide = a->n_series * a->dim;
	for (size_t t = (size_t)begin; t < (size_t)end; t++) {
		size_t from = t * (size_t)wide, to = (size_t)a->slot[t] * (size_t)wide;
		cpu_kv_store(j->b, a->values, to, (const float *)a->value + from, wide);
		cpu_kv_store(j->b, a->gates, to, (const float *)a->gate + from, wide);
	}
}

/* Where element d of the block ending at `last` comes from: positions from `from` on. Those below
 * `first` belong to the block before. */
struct block_span {
	const int32_t *pages;
	int32_t from, first, last;
};

static size_t input_at(const struct compress_args *a, const struct block_span *s, int32_t p)
{
	int32_t size = a->to.page_size;
	return ((size_t)s->pages[p / size] * (size_t)size + (size_t)(p % size)) *
	       (size_t)(a->n_series * a->dim);
}

/* Elements [d0, d0 + n) of the block's sum. */
static void sum_block(const struct compress_args *a, const struct block_span *s, int32_t d0,
		      int32_t n, float *out)
{
	size_t wide = (size_t)(a->n_series * a->dim), own = wide - (size_t)a->dim;
	float top[AT_ONCE], all[AT_ONCE] = {0}, gate;
	for (int32_t pass = 0; pass < 2; pass++)
		for (int32_t p = s->from; p <= s->last; p++) {
			size_t e = (p < s->first ? 0 : own) + (size_t)d0;
			size_t at = input_at(a, s, p) + e;
			const float *bias = a->bias + (size_t)((p - s->from) % a->ratio) * wide + e;
			for (int32_t d = 0; d < n; d++) {
				gate = blocks_float(a->gates, a->to.type, at + (size_t)d) + bias[d];
				if (pass == 0) {
					top[d] = p == s->from || gate > top[d] ? gate : top[d];
					out[d] = 0;
					continue;
				}
				float w = expf(gate - top[d]);
				all[d] += w;
				out[d] += w * blocks_float(a->values, a->to.type, at + (size_t)d);
			}
		}
	for (int32_t d = 0; d < n; d++)
		out[d] /= all[d];
}

static void fill_blocks(void *arg, int begin, int end)
{
	const struct compress_job *j = arg;
	const struct compress_args *a = j->a;
	float row[MAX_DIM];
	for (int t = begin; t < end; t++) {
		int32_t last = a->position[t], first = last + 1 - a->ratio;
		bool has_before = a->n_series > 1 && first > 0;
		const struct block_span s = {
			a->page_table + (size_t)a->seq_of[t] * (size_t)a->max_pages_per_seq,
			has_before ? first - a->ratio : first, first, last};
		if ((last + 1) % a->ratio)
			continue;
		for (int32_t d = 0; d < a->dim; d += AT_ONCE)
			sum_block(a, &s, d, MIN(AT_ONCE, a->dim - d), row + d);
		if (a->norm)
			normalise(row, a->dim, a->eps, a->norm);
		if (a->n_freq)
			rotate(row, a->dim, a->n_freq,
			       a->rope + (size_t)t * (size_t)a->n_freq * 2, 1);
		cpu_kv_store(j->b, a->to.rows,
			     row_pages_block(&a->to, a->slot[t]) * (size_t)a->dim, row, a->dim);
	}
}

enum status cpu_compress(struct backend *b, const struct compress_args *a)
{
	const struct compress_job job = {b, a};
	if (a->dim > MAX_DIM)
		return E_UNSUPPORTED;
	cpu_for(b, a->n_tok, (size_t)(a->n_series * a->dim) * 2, put_inputs, &job);
	cpu_for(b, a->n_tok, (size_t)a->dim * 32, fill_blocks, &job);
	return OK;
}

static void see(const struct see_rows_args *a, int t)
{
	const struct row_pages *of = &a->of;
	const int32_t *pages = a->page_table +
			       (size_t)a->seq_of[t] * (size_t)a->max_pages_per_seq;
	int32_t *table = a->table + (size_t)t * (size_t)a->width, k = 0, size = of->page_size;
	int32_t p = a->position[t], n = a->ratio ? (p + 1) / a->ratio : 0;
	for (int32_t s = p < a->window ? 0 : p - a->window + 1; s <= p; s++)
		table[k++] = (int32_t)row_pages_token(of, pages[s / size] * size + s % size);
	if (a->chosen) {
		const int32_t *chosen = a->chosen + (size_t)t * (size_t)a->chosen_pitch;
		n = (a->chosen_last[t] + 1) / a->ratio;
		for (int32_t i = 0; i < n; i++)
			table[k++] = chosen[i] / of->n_rows * of->page_rows + of->first_row +
				     chosen[i] % of->n_rows;
		n = 0;
	}
	for (int32_t b = 0; b < n; b++) {
		int32_t s = (b + 1) * a->ratio - 1;
		table[k++] = (int32_t)row_pages_block(of, pages[s / size] * size + s % size);
	}
	a->last[t] = k - 1;
}

static void see_all(void *arg, int begin, int end)
{
	for (int t = begin; t < end; t++)
		see(arg, t);
}

enum status cpu_see_rows(struct backend *b, const struct see_rows_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->width * 4, see_all, a);
	return OK;
}
