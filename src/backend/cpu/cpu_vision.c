/* SPDX-License-Identifier: Apache-2.0
 *
 * What vision towers have beside the operations of language models. Both ways to compute
 * share it.
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"

static float mean_of(const float *x, int n)
{
	vec4 acc = {0};
	int i = 0;
	for (; i + 4 <= n; i += 4)
		acc += vec4_load(x + i);
	float sum = vec4_sums(acc, acc, acc, acc)[0];
	for (; i < n; i++)
		sum += x[i];
	return sum / (float)n;
}

static void run_layer_norm(void *arg, int begin, int end)
{
	const struct layer_norm_args *a = arg;
	size_t dim = (size_t)a->dim;
	for (size_t t = (size_t)begin; t < (size_t)end; t++) {
		const float *x = a->x + t * dim;
		float *y = (float *)a->y + t * dim;
		size_t i = a->n_weights ? t % (size_t)a->n_weights : 0;
		const float *weight = a->weight + i * dim;
		float mean = mean_of(x, a->dim);
		for (size_t d = 0; d < dim; d++)
			y[d] = x[d] - mean;
		float scale = 1 / sqrtf(squares_of(y, a->dim) / (float)a->dim + a->eps);
		for (size_t d = 0; d < dim; d++)
			y[d] = y[d] * scale * weight[d] + (a->bias ? a->bias[d] : 0);
	}
}

enum status cpu_layer_norm(struct backend *b, const struct layer_norm_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->dim * 4, run_layer_norm, a);
	return OK;
}

/* 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u) */
static float gelu_tanh(float v)
{
	float u = 0.79788456f * (v + 0.044715f * v * v * v);
	return v / (1 + expf(-2 * u));
}

static void run_gelu(void *arg, int begin, int end)
{
	const struct gelu_args *a = arg;
	float *x = (float *)a->x + (size_t)begin * (size_t)a->dim;
	size_t n = (size_t)(end - begin) * (size_t)a->dim;
	for (size_t i = 0; i < n; i++)
		x[i] = a->is_tanh ? gelu_tanh(x[i])
				  : 0.5f * x[i] * erfcf(x[i] * -0.70710678f);
}

enum status cpu_gelu(struct backend *b, const struct gelu_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->dim * 32, run_gelu, a);
	return OK;
}

static void run_clip(void *arg, int begin, int end)
{
	const struct clip_args *a = arg;
	size_t first = (size_t)begin * (size_t)a->dim, last = (size_t)end * (size_t)a->dim;
	const float *x = a->x;
	float *y = a->y;
	for (size_t i = first; i < last; i++)
		y[i] = x[i] < a->low ? a->low : x[i] > a->high ? a->high : x[i];
}

enum status cpu_clip(struct backend *b, const struct clip_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->dim, run_clip, a);
	return OK;
}
