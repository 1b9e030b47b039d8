/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/hyper.h, kernels/ops/ngram_gate.h
 * LAYOUT    streams, gates of numbers (T, S, D) f32; gates of streams (T, S) f32; norms, keys
 *           and queries (T, S, D) f16
 *           gates of balanced streams (T, S + S S) f32
 * GEOMETRY  hyper_low: one thread a number, (T R over 256) workgroups. hyper_mix, hyper_add:
 *           one thread a number of D with all its streams, (D over 256, T) workgroups.
 *           ngram_gate: one workgroup a stream of a token, (T S). LDS: 4 bytes a wave.
 *           hyper_split, hyper_spread: as hyper_mix; the first workgroup of a token balances
 *           its gates, a thread a gate. LDS: 1.1 KiB
 * PRECISION sums in f32; sigmoid with exp2 and rcp; halves rounded once
 * ROOFLINE  bound by launch overhead at decode (S D = 10,240: 60 KB); else by memory
 * TRIED     no other form
 * SEE       kernels/ops/hyper_ref.c, kernels/ops/ngram_gate_ref.c
 */
#include "kernels/device/dialect.h"

enum { HYPER_THREADS = 256, HYPER_MAX_STREAMS = 16 };

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

DEVICE float hyper_exp(float x)
{
	return fast_exp2(x * 1.44269504f);
}

/* Sum of n numbers of LDS, `next` apart. */
DEVICE float hyper_line(const float *x, int32_t n, int32_t next)
{
	float sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum += x[i * next];
	return sum;
}

/* Number `me` of comb (S, S), from its logit, by the threads below S S. All threads of the
 * workgroup must call it. */
DEVICE float hyper_balance(float logit, int32_t n, int32_t n_iters, float eps, float *comb)
{
	int32_t me = (int32_t)thread_index(), row = me / n * n, column = me % n;
	bool is_one = me < n * n;
	float x = 0, top = -3e38f;
	if (is_one)
		comb[me] = logit;
	group_barrier();
	for (int32_t j = 0; is_one && j < n; j++)
		top = comb[row + j] > top ? comb[row + j] : top;
	x = hyper_exp(logit - top);
	group_barrier();
	for (int32_t step = 0; step <= 2 * n_iters - 1; step++) {
		if (is_one)
			comb[me] = x;
		group_barrier();
		if (is_one && step % 2 == 0)
			x *= fast_rcp(hyper_line(comb + row, n, 1) + (step ? eps : 0));
		else if (is_one)
			x *= fast_rcp(hyper_line(comb + column, n, n) + eps);
		x += step ? 0 : eps;
		group_barrier();
	}
	return x;
}

/* wide, n_gates: numbers of a token in mix, and in gates. gates NULL: no part follows. sum
 * NULL: nothing is set to 0. */
KERNEL(HYPER_THREADS)
void hyper_split_kernel(int32_t dim, int32_t n_streams, int32_t n_iters, float eps,
			const float *mix, const float *scale, const float *base, const float *x,
			float *y, float *sum, float *gates, int32_t wide, int32_t n_gates)
{
	LDS(float, pre, HYPER_MAX_STREAMS);
	LDS(float, comb, HYPER_MAX_STREAMS * HYPER_MAX_STREAMS);
	int32_t n = n_streams, me = (int32_t)thread_index();
	int32_t d = (int32_t)group_index_x() * HYPER_THREADS + me;
	size_t t = group_index_y();
	const float *logit = mix + t * (size_t)wide;
	if (me < n)
		pre[me] = hyper_sigmoid(logit[me] * scale[0] + base[me]) + eps;
	group_barrier();
	if (d < dim) {
		const float *from = x + t * (size_t)n * (size_t)dim + (size_t)d;
		float all = 0;
		for (int32_t s = 0; s < n; s++)
			all += pre[s] * from[(size_t)s * (size_t)dim];
		y[t * (size_t)dim + (size_t)d] = all;
		if (sum)
			sum[t * (size_t)dim + (size_t)d] = 0;
	}
	if (!gates || group_index_x())
		return;
	float *out = gates + t * (size_t)n_gates;
	if (me < n)
		out[me] = 2 * hyper_sigmoid(logit[n + me] * scale[1] + base[n + me]);
	int32_t at = 2 * n + (me < n * n ? me : 0);
	float gate = hyper_balance(logit[at] * scale[2] + base[at], n, n_iters, eps, comb);
	if (me < n * n)
		out[n + me] = gate;
}

/* MOST: streams at most. */
template <int MOST>
DEVICE void hyper_spread(int32_t dim, int32_t n, const float *gates, const float *y, float *x)
{
	int32_t d = (int32_t)(group_index_x() * HYPER_THREADS + thread_index());
	size_t t = group_index_y();
	const float *post = gates + t * (size_t)((1 + n) * n), *comb = post + n;
	float *at = x + t * (size_t)n * (size_t)dim + (size_t)d, old[MOST];
	if (d >= dim)
		return;
	float add = y[t * (size_t)dim + (size_t)d];
	UNROLL
	for (int s = 0; s < MOST; s++)
		old[s] = s < n ? at[(size_t)s * (size_t)dim] : 0;
	for (int32_t s = 0; s < n; s++) {
		float sum = post[s] * add;
		UNROLL
		for (int j = 0; j < MOST; j++)
			sum += j < n ? comb[j * n + s] * old[j] : 0;
		at[(size_t)s * (size_t)dim] = sum;
	}
}

KERNEL(HYPER_THREADS)
void hyper_spread4_kernel(int32_t dim, int32_t n, const float *gates, const float *y, float *x)
{
	hyper_spread<4>(dim, n, gates, y, x);
}

KERNEL(HYPER_THREADS)
void hyper_spread16_kernel(int32_t dim, int32_t n, const float *gates, const float *y, float *x)
{
	hyper_spread<HYPER_MAX_STREAMS>(dim, n, gates, y, x);
}
