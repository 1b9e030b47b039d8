/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/index.h"

#include <math.h>
#include <stdlib.h>

static void pool(const struct index_keys_args *a, int32_t t)
{
	size_t dim = (size_t)a->dim, block = (size_t)(a->slot[t] / a->ratio);
	const float *key = a->ratio == 1 ? (const float *)a->key + (size_t)t * (size_t)a->row
					 : (const float *)a->keys + block *
						   (size_t)a->ratio * dim;
	const float *rope = a->rope + (size_t)t * (size_t)a->n_freq * 2;
	float *out = (float *)a->blocks + block * dim;
	double *mean = calloc(dim, sizeof *mean), squares = 0, centre = 0;
	for (size_t d = 0; d < dim; d++) {
		for (size_t r = 0; r < (size_t)a->ratio; r++)
			mean[d] += key[r * dim + d];
		mean[d] /= a->ratio;
		centre += a->bias ? mean[d] / a->dim : 0;
	}
	for (size_t d = 0; d < dim; d++) {
		mean[d] -= centre;
		squares += mean[d] * mean[d];
	}
	double scale = 1 / sqrt(squares / a->dim + (double)a->eps);
	for (size_t d = 0; d < dim; d++)
		mean[d] = mean[d] * scale * a->norm[d] + (a->bias ? a->bias[d] : 0);
	for (int32_t i = 0; i < a->n_freq; i++) {
		double c = rope[2 * i], s = rope[2 * i + 1];
		double x = mean[i], y = mean[i + a->n_freq];
		mean[i] = x * c - y * s;
		mean[i + a->n_freq] = y * c + x * s;
	}
	for (size_t d = 0; d < dim; d++)
		out[d] = (float)mean[d];
	free(mean);
}

void index_keys_ref(const struct index_keys_args *a)
{
	size_t dim = (size_t)a->dim;
	for (int32_t t = 0; t < a->n_tok && a->ratio > 1; t++)
		memcpy((float *)a->keys + (size_t)a->slot[t] * dim,
		       (const float *)a->key + (size_t)t * (size_t)a->row, dim * sizeof(float));
	for (int32_t t = 0; t < a->n_tok; t++)
		if (a->slot[t] % a->ratio == a->ratio - 1)
			pool(a, t);
}

static double score(const struct index_choose_args *a, int32_t t, size_t block)
{
	const float *q = (const float *)a->q + (size_t)t * (size_t)a->row;
	const float *key = (const float *)a->blocks + block * (size_t)a->dim;
	double sum = 0;
	for (int32_t h = 0; h < a->n_heads; h++, q += a->dim) {
		double dot = 0;
		for (int32_t d = 0; d < a->dim; d++)
			dot += (double)q[d] * key[d];
		double weight = a->weight ? a->weight[t * a->n_heads + h] : 1;
		sum += weight * fmax(dot, 0);
	}
	return sum;
}

/* Fewer than `top` blocks rank before block b. */
static bool is_chosen(const float *scores, int32_t n, int32_t b, int32_t top)
{
	int32_t better = 0;
	for (int32_t i = 0; i < n && better < top; i++)
		better += scores[i] > scores[b] || (scores[i] == scores[b] && i < b);
	return better < top;
}

void index_choose_ref(const struct index_choose_args *a)
{
	for (int32_t t = 0; t < a->n_tok; t++) {
		const int32_t *pages = a->page_table + (size_t)a->seq_of[t] *
							       (size_t)a->max_pages_per_seq;
		int32_t n = (a->position[t] + 1) / a->ratio, k = 0;
		int32_t rest = (a->position[t] + 1) % a->ratio;
		int32_t *table = a->table + (size_t)t * (size_t)(a->top + 1);
		for (int32_t b = 0; b < n; b++)
			a->work[b] = (float)score(a, t, (size_t)index_page(
							pages, a->page_size, a->ratio, b));
		for (int32_t b = 0; b < n; b++)
			if (is_chosen(a->work, n, b, a->top))
				table[k++] = index_page(pages, a->page_size, a->ratio, b);
		if (rest)
			table[k] = index_page(pages, a->page_size, a->ratio, n);
		a->last[t] = k * a->ratio + rest - 1;
	}
}
