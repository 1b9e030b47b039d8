/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections and the gates of n-grams. Each number of a row is computed by itself, in
 * vectors of four, or in their first lane where fewer are left. So both ways have one form.
 */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_math.h"

/* Clamped at -87 as in silu_mul4. */
VEC4_INLINE vec4 sigmoid4(vec4 x)
{
	x = vec4_select(x < vec4_all(-87), vec4_all(-87), x);
	return vec4_all(1) / (vec4_all(1) + vec4_exp(-x));
}

static void run_low(void *arg, int begin, int end)
{
	const struct hyper_low_args *a = arg;
	size_t i = (size_t)begin * (size_t)a->dim, n = (size_t)end * (size_t)a->dim;
	float *y = a->y, part = 1 / (float)a->n_streams;
	for (; i < n; i++)
		y[i] = silu_mul_one(a->x[i] * part, 1);
}

enum status cpu_hyper_low(struct backend *b, const struct hyper_low_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->dim * 16, run_low, a);
	return OK;
}

static void run_mix(void *arg, int begin, int end)
{
	const struct hyper_mix_args *a = arg;
	size_t dim = (size_t)a->dim, n_streams = (size_t)a->n_streams;
	vec4 part = vec4_all(1 / (float)a->n_streams);
	for (size_t t = (size_t)begin; t < (size_t)end; t++) {
		const float *gate = a->gate + t * n_streams * dim;
		const float *n = (const float *)a->n + t * n_streams * dim;
		float *x = a->x + t * dim, *y = a->y ? (float *)a->y + t * dim : x;
		size_t d = 0;
		for (; d + 4 <= dim; d += 4) {
			vec4 sum = {0};
			for (size_t s = 0; s < n_streams; s++)
				sum += sigmoid4(vec4_load(gate + s * dim + d)) *
				       vec4_load(n + s * dim + d);
			vec4_store(y + d, sum * part);
		}
		for (; d < dim; d++) {
			float sum = 0;
			for (size_t s = 0; s < n_streams; s++)
				sum += sigmoid4(vec4_all(gate[s * dim + d]))[0] *
				       n[s * dim + d];
			y[d] = sum * part[0];
		}
		if (y != x)
			memset(x, 0, dim * sizeof *x);
	}
}

enum status cpu_hyper_mix(struct backend *b, const struct hyper_mix_args *a)
{
	cpu_for(b, a->n_tok, (size_t)a->dim * (size_t)a->n_streams * 8, run_mix, a);
	return OK;
}

static void run_add(void *arg, int begin, int end)
{
	const struct hyper_add_args *a = arg;
	size_t dim = (size_t)a->dim, n_streams = (size_t)a->n_streams;
	for (size_t row = (size_t)begin; row < (size_t)end; row++) {
		const float *y = a->y + row / n_streams * dim;
		float *x = a->x + row * dim, gate = 0;
		if (!a->gate) {
			memcpy(x, y, dim * sizeof *x);
			continue;
		}
		gate = 2 * sigmoid4(vec4_all(a->gate[row] / (float)n_streams))[0];
		for (size_t d = 0; d < dim; d++)
			x[d] += gate * y[d];
	}
}

enum status cpu_hyper_add(struct backend *b, const struct hyper_add_args *a)
{
	cpu_for(b, a->n_tok * a->n_streams, (size_t)a->dim, run_add, a);
	return OK;
}

static float dot(const float *x, const float *y, size_t n)
{
	vec4 sum = {0};
	size_t i = 0;
	for (; i + 4 <= n; i += 4)
		sum += vec4_load(x + i) * vec4_load(y + i);
	float all = vec4_sums(sum, sum, sum, sum)[0];
	for (; i < n; i++)
		all += x[i] * y[i];
	return all;
}

static void run_ngram(void *arg, int begin, int end)
{
	const struct ngram_gate_args *a = arg;
	size_t dim = (size_t)a->dim;
	for (size_t row = (size_t)begin; row < (size_t)end; row++) {
		const float *value = a->value + row / (size_t)a->n_streams * dim;
		float *gated = a->gated + row * dim, *x = a->x + row * dim;
		float g = dot((const float *)a->key + row * dim,
			      (const float *)a->query + row * dim, dim) / sqrtf((float)dim);
		float root = sqrtf(fmaxf(fabsf(g), 1e-6f));
		float gate = sigmoid4(vec4_all(g > 0 ? root : g < 0 ? -root : 0))[0];
		for (size_t d = 0; d < dim; d++) {
			gated[d] = gate * value[d];
			x[d] += gated[d];
		}
	}
}

enum status cpu_ngram_gate(struct backend *b, const struct ngram_gate_args *a)
{
	cpu_for(b, a->n_tok * a->n_streams, (size_t)a->dim * 4, run_ngram, a);
	return OK;
}

/* Divides each line of n numbers by its sum + eps. Numbers are `next` apart, lines `line`. */
static void divide_lines(float *comb, int32_t n, int32_t line, int32_t next, float eps)
{
	for (int32_t i = 0; i < n; i++) {
		float all = 0;
		for (int32_t j = 0; j < n; j++)
			all += comb[i * line + j * next];
		for (int32_t j = 0; j < n; j++)
			comb[i * line + j * next] /= all + eps;
	}
}

/* comb (S, S) from logits, in place. */
static void balance(const struct hyper_split_args *a, float *comb)
{
	int32_t n = a->n_streams;
	for (int32_t i = 0; i < n; i++) {
		float *row = comb + i * n, top = row[0], all = 0;
		for (int32_t j = 1; j < n; j++)
			top = row[j] > top ? row[j] : top;
		for (int32_t j = 0; j < n; j++)
			all += row[j] = expf(row[j] - top);
		for (int32_t j = 0; j < n; j++)
			row[j] = row[j] / all + a->eps;
	}
	divide_lines(comb, n, 1, n, a->eps);
	for (int32_t i = 1; i < a->n_iters; i++) {
		divide_lines(comb, n, n, 1, a->eps);
		divide_lines(comb, n, 1, n, a->eps);
	}
}

static float gate_of(float mix, float scale, float base)
{
	return 1 / (1 + expf(-(mix * scale + base)));
}

static void run_split(void *arg, int begin, int end)
{
	const struct hyper_split_args *a = arg;
	size_t dim = (size_t)a->dim, n = (size_t)a->n_streams;
	size_t wide = a->gates ? (2 + n) * n : n;
	for (size_t t = (size_t)begin; t < (size_t)end; t++) {
		const float *mix = a->mix + t * wide, *x = a->x + t * n * dim;
		float *y = a->y + t * dim, pre[HYPER_MAX_STREAMS];
		float *gates = a->gates ? a->gates + t * (1 + n) * n : NULL;
		for (size_t s = 0; s < n; s++)
			pre[s] = gate_of(mix[s], a->scale[0], a->base[s]) + a->eps;
		for (size_t d = 0; d < dim; d++) {
			float sum = 0;
			for (size_t s = 0; s < n; s++)
				sum += pre[s] * x[s * dim + d];
			y[d] = sum;
		}
		if (a->sum)
			memset(a->sum + t * dim, 0, dim * sizeof *a->sum);
		if (!a->gates)
			continue;
		for (size_t s = 0; s < n; s++)
			gates[s] = 2 * gate_of(mix[n + s], a->scale[1], a->base[n + s]);
		for (size_t i = 0; i < n * n; i++)
			gates[n + i] = mix[2 * n + i] * a->scale[2] + a->base[2 * n + i];
		balance(a, gates + n);
	}
}

enum status cpu_hyper_split(struct backend *b, const struct hyper_split_args *a)
{
	if (a->n_streams > HYPER_MAX_STREAMS)
		return E_UNSUPPORTED;
	cpu_for(b, a->n_tok, (size_t)a->dim * (size_t)a->n_streams * 2, run_split, a);
	return OK;
}

static void run_spread(void *arg, int begin, int end)
{
	const struct hyper_spread_args *a = arg;
	size_t dim = (size_t)a->dim, n = (size_t)a->n_streams;
	float out[HYPER_MAX_STREAMS];
	for (size_t t = (size_t)begin; t < (size_t)end; t++) {
		const float *post = a->gates + t * (1 + n) * n, *comb = post + n;
		const float *y = a->y + t * dim;
		float *x = a->x + t * n * dim;
		for (size_t d = 0; d < dim; d++) {
			for (size_t s = 0; s < n; s++) {
				out[s] = post[s] * y[d];
				for (size_t j = 0; j < n; j++)
					out[s] += comb[j * n + s] * x[j * dim + d];
			}
			for (size_t s = 0; s < n; s++)
				x[s * dim + d] = out[s];
		}
	}
}

enum status cpu_hyper_spread(struct backend *b, const struct hyper_spread_args *a)
{
	if (a->n_streams > HYPER_MAX_STREAMS)
		return E_UNSUPPORTED;
	cpu_for(b, a->n_tok, (size_t)a->dim * (size_t)a->n_streams * 4, run_spread, a);
	return OK;
}
