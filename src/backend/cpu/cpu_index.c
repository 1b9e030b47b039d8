/* SPDX-License-Identifier: Apache-2.0
 *
 * The indexer of sparse attention. Sort keys are integers in the order of scores. The least key
 * that is chosen is found bit by bit, by counting.
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

enum { MAX_KEY = 512 };

struct index_job {
	struct backend *b;
	const void *a;
};

static void read_key(const void *keys, enum dtype type, size_t at, int n, float *out)
{
	for (int i = 0; i < n; i++)
		out[i] = blocks_float(keys, type, at + (size_t)i);
}

static void put_keys(void *arg, int begin, int end)
{
	const struct index_job *j = arg;
	const struct index_keys_args *a = j->a;
	for (int t = begin; t < end; t++)
		cpu_kv_store(j->b, a->keys, (size_t)a->slot[t] * (size_t)a->dim,
			     (const float *)a->key + (size_t)t * (size_t)a->row, a->dim);
}

/* The mean of the keys of the block that token t fills. */
static void mean_of(const struct index_keys_args *a, int t, float *mean)
{
	size_t dim = (size_t)a->dim, block = (size_t)(a->slot[t] / a->ratio);
	float key[MAX_KEY];
	if (a->ratio == 1) {
		memcpy(mean, (const float *)a->key + (size_t)t * (size_t)a->row,
		       dim * sizeof *mean);
		return;
	}
	memset(mean, 0, dim * sizeof *mean);
	for (size_t r = 0; r < (size_t)a->ratio; r++) {
		read_key(a->keys, a->type, (block * (size_t)a->ratio + r) * dim, a->dim, key);
		for (size_t d = 0; d < dim; d++)
			mean[d] += key[d];
	}
	for (size_t d = 0; d < dim; d++)
		mean[d] /= (float)a->ratio;
}

/* Normalises x as rms_norm does, or, if there is a bias, by a layer norm. */
static void normalise(const struct index_keys_args *a, float *x)
{
	size_t dim = (size_t)a->dim;
	float centre = 0;
	for (size_t d = 0; a->bias && d < dim; d++)
		centre += x[d];
	centre /= (float)a->dim;
	for (size_t d = 0; a->bias && d < dim; d++)
		x[d] -= centre;
	float scale = 1 / sqrtf(squares_of(x, a->dim) / (float)a->dim + a->eps);
	for (size_t d = 0; d < dim; d++)
		x[d] = x[d] * (scale * a->norm[d]) + (a->bias ? a->bias[d] : 0);
}

/* The key of the block that token t fills. */
static void fill_block(const struct index_job *j, int t)
{
	const struct index_keys_args *a = j->a;
	size_t dim = (size_t)a->dim, block = (size_t)(a->slot[t] / a->ratio);
	const float *rope = a->rope + (size_t)t * (size_t)a->n_freq * 2;
	float mean[MAX_KEY];
	mean_of(a, t, mean);
	normalise(a, mean);
	for (int i = 0; i < a->n_freq; i++) {
		float c = rope[2 * i], s = rope[2 * i + 1];
		float x = mean[i], y = mean[i + a->n_freq];
		mean[i] = x * c - y * s;
		mean[i + a->n_freq] = y * c + x * s;
	}
	cpu_kv_store(j->b, a->blocks, block * dim, mean, a->dim);
}

static void fill_blocks(void *arg, int begin, int end)
{
	const struct index_job *j = arg;
	const struct index_keys_args *a = j->a;
	for (int t = begin; t < end; t++)
		if (a->slot[t] % a->ratio == a->ratio - 1)
			fill_block(j, t);
}

enum status cpu_index_keys(struct backend *b, const struct index_keys_args *a)
{
	const struct index_job job = {b, a};
	if (a->dim > MAX_KEY || a->page_size % a->ratio)
		return E_UNSUPPORTED;
	if (a->ratio > 1)
		cpu_for(b, a->n_tok, (size_t)a->dim, put_keys, &job);
	cpu_for(b, a->n_tok, (size_t)a->dim * 8, fill_blocks, &job);
	return OK;
}

/* The score of a block with this key. weight: of the token's heads, or NULL. */
static float score(const struct index_choose_args *a, const float *q, const float *weight,
		   const float *key)
{
	float sum = 0;
	for (int h = 0; h < a->n_heads; h++, q += a->dim) {
		vec4 dots = {0};
		int d = 0;
		for (; d + 4 <= a->dim; d += 4)
			dots += vec4_load(q + d) * vec4_load(key + d);
		float dot = vec4_sums(dots, dots, dots, dots)[0];
		for (; d < a->dim; d++)
			dot += q[d] * key[d];
		sum += (weight ? weight[h] : 1) * (dot > 0 ? dot : 0);
	}
	return sum;
}

/* The sort key of a score. */
static uint32_t bits_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits >> 31 ? ~bits : bits | 1u << 31;
}

static int32_t count_from(const float *scores, int32_t n, uint32_t least)
{
	int32_t k = 0;
	for (int32_t b = 0; b < n; b++)
		k += bits_of(scores[b]) >= least;
	return k;
}

/* The bits of the score of rank `top` (from 1). */
static uint32_t least_chosen(const float *scores, int32_t n, int32_t top)
{
	uint32_t least = 0;
	for (int bit = 31; bit >= 0; bit--)
		if (count_from(scores, n, least | 1u << bit) >= top)
			least |= 1u << bit;
	return least;
}

static void choose(const struct index_choose_args *a, int t)
{
	const int32_t *pages = a->page_table +
			       (size_t)a->seq_of[t] * (size_t)a->max_pages_per_seq;
	const float *q = (const float *)a->q + (size_t)t * (size_t)a->row;
	const float *weight = a->weight ? a->weight + (size_t)t * (size_t)a->n_heads : NULL;
	float *scores = a->work + (size_t)t * (size_t)(a->n_ctx_max / a->ratio);
	int32_t n = (a->position[t] + 1) / a->ratio, rest = (a->position[t] + 1) % a->ratio;
	int32_t *table = a->table + (size_t)t * (size_t)(a->top + 1), k = 0;
	float key[MAX_KEY];
	uint32_t least = 0;
	int32_t n_equal = n; /* blocks with exactly the least score that are taken */
	for (int32_t b = 0; n > a->top && b < n; b++) {
		size_t at = (size_t)index_page(pages, a->page_size, a->ratio, b);
		read_key(a->blocks, a->type, at * (size_t)a->dim, a->dim, key);
		scores[b] = score(a, q, weight, key);
	}
	if (n > a->top) {
		least = least_chosen(scores, n, a->top);
		n_equal = a->top - count_from(scores, n, least + 1);
	}
	for (int32_t b = 0; b < n && k < a->top; b++) {
		uint32_t bits = n > a->top ? bits_of(scores[b]) : 0;
		if (bits < least || (bits == least && n_equal-- <= 0))
			continue;
		table[k++] = index_page(pages, a->page_size, a->ratio, b);
	}
	if (rest)
		table[k] = index_page(pages, a->page_size, a->ratio, n);
	a->last[t] = k * a->ratio + rest - 1;
}

static void run_choose(void *arg, int begin, int end)
{
	for (int t = begin; t < end; t++)
		choose(arg, t);
}

enum status cpu_index_choose(struct backend *b, const struct index_choose_args *a)
{
	if (a->dim > MAX_KEY || a->page_size % a->ratio)
		return E_UNSUPPORTED;
	size_t work = (size_t)(a->n_ctx_max / a->ratio) * (size_t)a->dim * (size_t)a->n_heads;
	cpu_for(b, a->n_tok, work, run_choose, a);
	return OK;
}
