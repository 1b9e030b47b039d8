/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* x (dim) = x / sqrt(mean(x^2) + eps) * weight. */
static void normalise(double *x, size_t dim, double eps, const float *weight)
{
	double squares = 0;
	for (size_t d = 0; d < dim; d++)
		squares += x[d] * x[d];
	double scale = 1 / sqrt(squares / (double)dim + eps);
	for (size_t d = 0; d < dim; d++)
		x[d] *= scale * (weight ? weight[d] : 1);
}

static void rotate(double *x, size_t dim, int32_t n_freq, const float *rope, bool is_back)
{
	double *tail = x + dim - 2 * (size_t)n_freq;
	for (int32_t i = 0; i < n_freq; i++) {
		double c = rope[2 * i], s = is_back ? -(double)rope[2 * i + 1] : rope[2 * i + 1];
		double a = tail[2 * i], b = tail[2 * i + 1];
		tail[2 * i] = a * c - b * s;
		tail[2 * i + 1] = b * c + a * s;
	}
}

void rope_tail_ref(const struct rope_tail_args *a)
{
	size_t dim = (size_t)a->dim, n_heads = (size_t)a->n_heads;
	double *x = malloc(dim * sizeof *x);
	for (size_t row = 0; row < (size_t)a->n_tok * n_heads; row++) {
		size_t t = row / n_heads, at = row * dim;
		float *y = a->y;
		for (size_t d = 0; d < dim; d++)
			x[d] = ((const float *)a->x)[at + d];
		if (a->normalises)
			normalise(x, dim, a->eps, a->norm);
		rotate(x, dim, a->n_freq, a->rope + t * (size_t)a->n_freq * 2, a->is_back);
		if (!y) {
			y = a->to.rows;
			at = row_pages_token(&a->to, a->slot[t]) * dim;
		}
		for (size_t d = 0; d < dim; d++)
			y[at + d] = (float)x[d];
	}
	free(x);
}

/* Index of the first element of a token's row in values and gates, by its position. */
static size_t input_at(const struct compress_args *a, int32_t seq, int32_t position)
{
	int32_t size = a->to.page_size;
	const int32_t *pages = a->page_table + (size_t)seq * (size_t)a->max_pages_per_seq;
	return ((size_t)pages[position / size] * (size_t)size + (size_t)(position % size)) *
	       (size_t)(a->n_series * a->dim);
}

/* Element d of the block that ends at position `last`, before its norm. */
static double sum_of(const struct compress_args *a, int32_t seq, int32_t last, size_t d)
{
	size_t wide = (size_t)(a->n_series * a->dim), own = wide - (size_t)a->dim + d;
	int32_t first = last + 1 - a->ratio, n = 0;
	int32_t from = a->n_series > 1 && first > 0 ? first - a->ratio : first;
	double *gate = malloc((size_t)(last + 1 - from) * 2 * sizeof *gate), top = -INFINITY;
	double *value = gate + (last + 1 - from), all = 0, sum = 0;
	for (int32_t p = from; p <= last; p++, n++) {
		size_t e = p < first ? d : own, at = input_at(a, seq, p) + e;
		gate[n] = ((const float *)a->gates)[at] +
			  (double)a->bias[(size_t)((p - from) % a->ratio) * wide + e];
		value[n] = ((const float *)a->values)[at];
		top = fmax(top, gate[n]);
	}
	for (int32_t i = 0; i < n; i++) {
		double w = exp(gate[i] - top);
		all += w;
		sum += w * value[i];
	}
	free(gate);
	return sum / all;
}

void compress_ref(const struct compress_args *a)
{
	size_t dim = (size_t)a->dim, wide = dim * (size_t)a->n_series;
	double *row = malloc(dim * sizeof *row);
	for (size_t t = 0; t < (size_t)a->n_tok; t++) {
		size_t to = (size_t)a->slot[t] * wide;
		memcpy((float *)a->values + to, (const float *)a->value + t * wide,
		       wide * sizeof(float));
		memcpy((float *)a->gates + to, (const float *)a->gate + t * wide,
		       wide * sizeof(float));
	}
	for (int32_t t = 0; t < a->n_tok; t++) {
		if ((a->position[t] + 1) % a->ratio)
			continue;
		float *out = (float *)a->to.rows + row_pages_block(&a->to, a->slot[t]) * dim;
		for (size_t d = 0; d < dim; d++)
			row[d] = sum_of(a, a->seq_of[t], a->position[t], d);
		if (a->norm)
			normalise(row, dim, a->eps, a->norm);
		if (a->n_freq)
			rotate(row, dim, a->n_freq,
			       a->rope + (size_t)t * (size_t)a->n_freq * 2, false);
		for (size_t d = 0; d < dim; d++)
			out[d] = (float)row[d];
	}
	free(row);
}

void see_rows_ref(const struct see_rows_args *a)
{
	int32_t size = a->of.page_size;
	for (int32_t t = 0; t < a->n_tok; t++) {
		const int32_t *pages = a->page_table +
				       (size_t)a->seq_of[t] * (size_t)a->max_pages_per_seq;
		int32_t *table = a->table + (size_t)t * (size_t)a->width, k = 0;
		int32_t p = a->position[t], n = a->ratio ? (p + 1) / a->ratio : 0;
		for (int32_t s = p < a->window ? 0 : p - a->window + 1; s <= p; s++)
			table[k++] = (int32_t)row_pages_token(
				&a->of, pages[s / size] * size + s % size);
		if (a->chosen)
			n = (a->chosen_last[t] + 1) / a->ratio;
		for (int32_t b = 0; b < n; b++) {
			int32_t s = (b + 1) * a->ratio - 1;
			size_t row = row_pages_block(&a->of, pages[s / size] * size + s % size);
			if (a->chosen) {
				int32_t c = a->chosen[t * a->chosen_pitch + b];
				row = (size_t)(c / a->of.n_rows * a->of.page_rows +
					       a->of.first_row + c % a->of.n_rows);
			}
			table[k++] = (int32_t)row;
		}
		a->last[t] = k - 1;
	}
}
