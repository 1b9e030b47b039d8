/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/hyper.h, kernels/ops/ngram_gate.h
 * LAYOUT    streams, gates of numbers (T, S, D) f32; gates of streams (T, S) f32; norms, keys
 *           and queries (T, S, D) f16
 * GEOMETRY  hyper_low: one thread a number, (T R over 256) workgroups. hyper_mix, hyper_add:
 *           one thread a number of D with all its streams, (D over 256, T) workgroups.
 *           ngram_gate: one workgroup a stream of a token, (T S). LDS: 4 bytes a wave
 * PRECISION sums in f32; sigmoid with exp2 and rcp; halves rounded once
 * ROOFLINE  bound by launch overhead at decode (S D = 10,240: 60 KB); else by memory
 * TRIED     no other form
 * SEE       kernels/ops/hyper_ref.c, kernels/ops/ngram_gate_ref.c
 */
#include "kernels/device/dialect.h"

enum { HYPER_THREADS = 256 };

DEVICE float hyper_sigmoid(float x)
{
	return fast_rcp(1 + fast_exp2(x * -1.44269504f));
}

/* part: 1 / S. */
KERNEL(HYPER_THREADS)
void hyper_low_kernel(uint64_t n, float part, const float *x, uint16_t *y)
{
	uint64_t i = (uint64_t)group_index_x() * HYPER_THREADS + thread_index();
	if (i >= n)
		return;
	float v = x[i] * part;
	y[i] = f32_to_f16(v * hyper_sigmoid(v));
}

/* y NULL: the result goes to x. */
KERNEL(HYPER_THREADS)
void hyper_mix_kernel(int32_t dim, int32_t n_streams, float part, const float *gate,
		      const uint16_t *n, uint16_t *y, float *x)
{
	int32_t d = (int32_t)(group_index_x() * HYPER_THREADS + thread_index());
	size_t t = group_index_y(), out = t * (size_t)dim + (size_t)d;
	float sum = 0;
	if (d >= dim)
		return;
	for (int32_t s = 0; s < n_streams; s++) {
		size_t at = (t * (size_t)n_streams + (size_t)s) * (size_t)dim + (size_t)d;
		sum += hyper_sigmoid(gate[at]) * f16_to_f32(n[at]);
	}
	x[out] = y ? 0 : sum * part;
	if (y)
		y[out] = f32_to_f16(sum * part);
}

/* gate NULL: all streams become y. */
KERNEL(HYPER_THREADS)
void hyper_add_kernel(int32_t dim, int32_t n_streams, float part, const float *gate,
		      const float *y, float *x)
{
	int32_t d = (int32_t)(group_index_x() * HYPER_THREADS + thread_index());
	size_t t = group_index_y();
	if (d >= dim)
		return;
	float add = y[t * (size_t)dim + (size_t)d];
	for (int32_t s = 0; s < n_streams; s++) {
		size_t row = t * (size_t)n_streams + (size_t)s;
		size_t at = row * (size_t)dim + (size_t)d;
		x[at] = gate ? x[at] + 2 * hyper_sigmoid(gate[row] * part) * add : add;
	}
}

/* scale: 1 / sqrt(D). */
KERNEL(HYPER_THREADS)
void ngram_gate_kernel(int32_t dim, int32_t n_streams, float scale, const uint16_t *key,
		       const uint16_t *query, const float *value, float *gated, float *x)
{
	LDS(float, part, HYPER_THREADS / WAVE);
	size_t row = group_index_x();
	size_t at = row * (size_t)dim, from = row / (size_t)n_streams * (size_t)dim;
	float dot = 0;
	for (int32_t d = (int32_t)thread_index(); d < dim; d += HYPER_THREADS)
		dot += f16_to_f32(key[at + (size_t)d]) * f16_to_f32(query[at + (size_t)d]);
	float g = group_sum<HYPER_THREADS>(dot, part) * scale, size = g < 0 ? -g : g;
	size = size < 1e-6f ? 1e-6f : size;
	float root = size * fast_rsqrt(size);
	float gate = hyper_sigmoid(g > 0 ? root : g < 0 ? -root : 0);
	for (int32_t d = (int32_t)thread_index(); d < dim; d += HYPER_THREADS) {
		float add = gate * value[from + (size_t)d];
		gated[at + (size_t)d] = add;
		x[at + (size_t)d] += add;
	}
}
