/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/lora_add.h: low = scale s A x, then y += B low
 * LAYOUT    A (R, K) and B (R, N) f32, f16 or bf16, x (T, K) f16, y (T, N) f32 or f16
 * GEOMETRY  workgroups of 256 threads. low: a row of A a workgroup, (R times outputs, T); high:
 *           an element of y a thread, (the outputs' N over 256, T)
 * PRECISION f32; y in f16 is rounded once more
 * ROOFLINE  bound by memory: A and B are read once at decode. At prefill each token reads them
 *           again, from the cache
 * TRIED     a row of A a wave, a number a lane: bound by latency, three times as slow
 * SEE       kernels/ops/lora_add_ref.c
 */
#include "kernels/device/dialect.h"
#include "kernels/rows/lora_launch.h"

/* Element o of an array of the launch. By a choice among all of them the compiler sees that
 * pointers are global; by an index it does not. */
template <class T> DEVICE T pick(const T (&x)[LORA_OUTS], uint32_t o)
{
	return o == 0 ? x[0] : o == 1 ? x[1] : o == 2 ? x[2] : x[3];
}

/* The adapter's matrices for output o and token t; rank 0: it changes nothing. */
DEVICE lora_part part_of(const lora_launch &a, uint32_t o, uint32_t t)
{
	lora_part none = {nullptr, nullptr, 0, 0, LORA_F32, 0};
	int32_t i = a.adapter[t];
	const lora_part *of = pick(a.part, o);
	return i < 0 || !of ? none : of[i];
}

template <int TYPE> DEVICE float of_16(uint32_t bits)
{
	return TYPE == LORA_F16 ? f16_to_f32((uint16_t)bits) : bf16_to_f32((uint16_t)bits);
}

/* Element i of a matrix. */
template <int TYPE> DEVICE float number(const void *p, size_t i)
{
	if (TYPE == LORA_F32)
		return load_global<float>((const float *)p + i);
	return of_16<TYPE>(load_global<uint16_t>((const uint16_t *)p + i));
}

/* Four products: elements of a matrix from i on, and of x from k on. */
template <int TYPE> DEVICE float four(const void *p, size_t i, const uint16_t *x, int32_t k)
{
	float w[4];
	u32x2 v = load_global<u32x2>(x + k);
	if (TYPE == LORA_F32) {
		u32x4 bits = load_global<u32x4>((const float *)p + i);
		UNROLL
		for (int32_t e = 0; e < 4; e++)
			w[e] = bits_cast<float>(bits[e]);
	} else {
		u32x2 bits = load_global<u32x2>((const uint16_t *)p + i);
		UNROLL
		for (int32_t e = 0; e < 4; e++)
			w[e] = of_16<TYPE>(bits[e / 2] >> e % 2 * 16);
	}
	float sum = w[0] * f16_to_f32((uint16_t)v[0]);
	sum += w[1] * f16_to_f32((uint16_t)(v[0] >> 16));
	sum += w[2] * f16_to_f32((uint16_t)v[1]);
	return sum + w[3] * f16_to_f32((uint16_t)(v[1] >> 16));
}

/* What a thread adds to the product of row r of A and x. */
template <int TYPE>
DEVICE float low_of(const lora_part &p, int32_t r, const uint16_t *x, int32_t n_in)
{
	enum { ONCE = 4 * LORA_THREADS, AHEAD = 4 };
	size_t row = (size_t)r * (size_t)n_in;
	int32_t k = (int32_t)thread_index() * 4;
	float sum = 0, ahead[AHEAD];
	if (n_in % 4 != 0) {
		for (k = (int32_t)thread_index(); k < n_in; k += LORA_THREADS)
			sum += number<TYPE>(p.a, row + (size_t)k) * f16_to_f32(x[k]);
		return sum;
	}
	for (; k + (AHEAD - 1) * ONCE < n_in; k += AHEAD * ONCE) {
		UNROLL
		for (int32_t i = 0; i < AHEAD; i++)
			ahead[i] = four<TYPE>(p.a, row + (size_t)(k + i * ONCE), x, k + i * ONCE);
		sum += (ahead[0] + ahead[1]) + (ahead[2] + ahead[3]);
	}
	for (; k < n_in; k += ONCE)
		sum += four<TYPE>(p.a, row + (size_t)k, x, k);
	return sum;
}

/* Element n of B low, of `size`. */
template <int TYPE>
DEVICE float high_of(const lora_part &p, const float *low, int32_t n, int32_t size)
{
	enum { AHEAD = 8 };
	int32_t r = 0;
	float sum = 0, ahead[AHEAD];
	for (; r + AHEAD <= p.rank; r += AHEAD) {
		UNROLL
		for (int32_t i = 0; i < AHEAD; i++)
			ahead[i] = number<TYPE>(p.b, (size_t)(r + i) * (size_t)size + (size_t)n);
		UNROLL
		for (int32_t i = 0; i < AHEAD; i++)
			sum += low[r + i] * ahead[i];
	}
	for (; r < p.rank; r++)
		sum += low[r] * number<TYPE>(p.b, (size_t)r * (size_t)size + (size_t)n);
	return sum;
}

KERNEL(LORA_THREADS)
void lora_low_kernel(lora_launch a)
{
	LDS(float, part, LORA_THREADS / WAVE);
	uint32_t t = group_index_y(), o = group_index_x() / (uint32_t)a.rank;
	int32_t r = (int32_t)(group_index_x() % (uint32_t)a.rank);
	lora_part p = part_of(a, o, t);
	const uint16_t *x = a.x + (size_t)t * (size_t)a.n_in;
	if (r >= p.rank)
		return;
	float sum = p.type == LORA_F32	 ? low_of<LORA_F32>(p, r, x, a.n_in)
		    : p.type == LORA_F16 ? low_of<LORA_F16>(p, r, x, a.n_in)
					 : low_of<LORA_BF16>(p, r, x, a.n_in);
	sum = group_sum<LORA_THREADS>(sum, part);
	if (thread_index() == 0)
		a.low[((size_t)t * (size_t)a.n_out + o) * (size_t)a.rank + (size_t)r] =
			sum * (p.scale * a.scale[t]);
}

KERNEL(LORA_THREADS)
void lora_high_kernel(lora_launch a)
{
	uint32_t t = group_index_y(), o = 0;
	int32_t piece = (int32_t)group_index_x(), size = a.n[0];
	while (piece >= (size + LORA_THREADS - 1) / LORA_THREADS) {
		piece -= (size + LORA_THREADS - 1) / LORA_THREADS;
		size = pick(a.n, ++o);
	}
	int32_t n = piece * LORA_THREADS + (int32_t)thread_index();
	lora_part p = part_of(a, o, t);
	if (n >= size || p.rank == 0)
		return;
	const float *low = a.low + ((size_t)t * (size_t)a.n_out + o) * (size_t)a.rank;
	size_t at = (size_t)t * (size_t)size + (size_t)n;
	float sum = p.type == LORA_F32	 ? high_of<LORA_F32>(p, low, n, size)
		    : p.type == LORA_F16 ? high_of<LORA_F16>(p, low, n, size)
					 : high_of<LORA_BF16>(p, low, n, size);
	if (pick(a.is_f32, o)) {
		((float *)pick(a.y, o))[at] += sum;
	} else {
		uint16_t *y = (uint16_t *)pick(a.y, o) + at;
		*y = f32_to_f16(f16_to_f32(*y) + sum);
	}
}
