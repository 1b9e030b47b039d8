/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/hyper.h"

#include <math.h>

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

void hyper_low_ref(const struct hyper_low_args *a)
{
	for (size_t i = 0; i < (size_t)a->n_tok * (size_t)a->dim; i++) {
		double x = (double)a->x[i] / a->n_streams;
		((float *)a->y)[i] = (float)(x * sigmoid(x));
	}
}

void hyper_mix_ref(const struct hyper_mix_args *a)
{
	size_t dim = (size_t)a->dim, n_streams = (size_t)a->n_streams;
	for (size_t t = 0; t < (size_t)a->n_tok; t++)
		for (size_t d = 0; d < dim; d++) {
			double sum = 0;
			for (size_t s = 0; s < n_streams; s++) {
				size_t at = (t * n_streams + s) * dim + d;
				sum += sigmoid(a->gate[at]) * ((const float *)a->n)[at];
			}
			a->x[t * dim + d] = a->y ? 0 : (float)(sum / a->n_streams);
			if (a->y)
				((float *)a->y)[t * dim + d] = (float)(sum / a->n_streams);
		}
}

void hyper_add_ref(const struct hyper_add_args *a)
{
	size_t dim = (size_t)a->dim, n_streams = (size_t)a->n_streams;
	for (size_t row = 0; row < (size_t)a->n_tok * n_streams; row++)
		for (size_t d = 0; d < dim; d++) {
			double y = a->y[row / n_streams * dim + d];
			float *x = a->x + row * dim + d;
			if (a->gate)
				*x = (float)(*x + 2 * sigmoid(a->gate[row] / a->n_streams) * y);
			else
				*x = (float)y;
		}
}

/* comb (S, S) from logits, in place. */
static void balance(double *comb, int32_t n, int32_t n_iters, double eps)
{
	for (int32_t i = 0; i < n; i++) {
		double top = comb[i * n], all = 0;
		for (int32_t j = 1; j < n; j++)
			top = fmax(top, comb[i * n + j]);
		for (int32_t j = 0; j < n; j++)
			all += exp(comb[i * n + j] - top);
		for (int32_t j = 0; j < n; j++)
			comb[i * n + j] = exp(comb[i * n + j] - top) / all + eps;
	}
	for (int32_t step = 1; step < 2 * n_iters; step++) {
		int32_t next = step % 2 ? n : 1, line = step % 2 ? 1 : n; /* columns first */
		for (int32_t i = 0; i < n; i++) {
			double all = eps;
			for (int32_t j = 0; j < n; j++)
				all += comb[i * line + j * next];
			for (int32_t j = 0; j < n; j++)
				comb[i * line + j * next] /= all;
		}
	}
}

void hyper_split_ref(const struct hyper_split_args *a)
{
	int32_t n = a->n_streams, wide = a->gates ? (2 + n) * n : n;
	size_t dim = (size_t)a->dim;
	double comb[HYPER_MAX_STREAMS * HYPER_MAX_STREAMS], eps = a->eps;
	for (size_t t = 0; t < (size_t)a->n_tok; t++) {
		const float *mix = a->mix + t * (size_t)wide;
		float *gates = a->gates ? a->gates + t * (size_t)((1 + n) * n) : NULL;
		for (size_t d = 0; d < dim; d++) {
			double y = 0;
			for (int32_t s = 0; s < n; s++) {
				double pre = (double)mix[s] * a->scale[0] + a->base[s];
				y += (sigmoid(pre) + eps) *
				     a->x[(t * (size_t)n + (size_t)s) * dim + d];
			}
			a->y[t * dim + d] = (float)y;
			if (a->sum)
				a->sum[t * dim + d] = 0;
		}
		if (!a->gates)
			continue;
		for (int32_t s = n; s < 2 * n; s++)
			gates[s - n] = (float)(2 * sigmoid((double)mix[s] * a->scale[1] +
							   a->base[s]));
		for (int32_t i = 0; i < n * n; i++)
			comb[i] = (double)mix[2 * n + i] * a->scale[2] + a->base[2 * n + i];
		balance(comb, n, a->n_iters, eps);
		for (int32_t i = 0; i < n * n; i++)
			gates[n + i] = (float)comb[i];
	}
}

void hyper_spread_ref(const struct hyper_spread_args *a)
{
	size_t dim = (size_t)a->dim, n = (size_t)a->n_streams;
	double out[HYPER_MAX_STREAMS];
	for (size_t t = 0; t < (size_t)a->n_tok; t++) {
		const float *post = a->gates + t * (1 + n) * n, *comb = post + n;
		for (size_t d = 0; d < dim; d++) {
			float *x = a->x + t * n * dim + d;
			for (size_t s = 0; s < n; s++) {
				out[s] = (double)post[s] * a->y[t * dim + d];
				for (size_t j = 0; j < n; j++)
					out[s] += (double)comb[j * n + s] * x[j * dim];
			}
			for (size_t s = 0; s < n; s++)
				x[s * dim] = (float)out[s];
		}
	}
}
