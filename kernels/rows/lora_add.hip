/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/lora_add.h: low = scale s A x, then y += B low
 * LAYOUT    A (R, K) and B (R, N) f32, x (T, K) f16, y (T, N) f32 or f16
 * GEOMETRY  workgroups of 256 threads. low: a row of A a wave, (R over 8 times outputs, T); high:
 *           an element of y a thread, (the outputs' N over 256, T)
 * PRECISION f32; y in f16 is rounded once more
 * ROOFLINE  bound by memory: A and B are read once at decode. At prefill each token reads them
 *           again, from the cache
 * TRIED     no other form
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
	lora_part none = {nullptr, nullptr, 0, 0};
	int32_t i = a.adapter[t];
	const lora_part *of = pick(a.part, o);
	return i < 0 || !of ? none : of[i];
}

KERNEL(LORA_THREADS)
void lora_low_kernel(lora_launch a)
{
	uint32_t t = group_index_y(), eights = (uint32_t)(a.rank + LORA_WAVES - 1) / LORA_WAVES;
	uint32_t o = group_index_x() / eights;
	int32_t r = (int32_t)(group_index_x() % eights * LORA_WAVES + wave_index());
	lora_part p = part_of(a, o, t);
	const uint16_t *x = a.x + (size_t)t * (size_t)a.n_in;
	if (r >= p.rank)
		return;
	const float *row = p.a + (size_t)r * (size_t)a.n_in;
	float sum = 0;
	for (int32_t k = (int32_t)lane_index(); k < a.n_in; k += WAVE)
		sum += load_global<float>(row + k) * f16_to_f32(x[k]);
	sum = wave_sum(sum);
	if (lane_index() == 0)
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
	float sum = 0;
	for (int32_t r = 0; r < p.rank; r++)
		sum += low[r] * load_global<float>(p.b + (size_t)r * (size_t)size + (size_t)n);
	if (pick(a.is_f32, o)) {
		((float *)pick(a.y, o))[at] += sum;
	} else {
		uint16_t *y = (uint16_t *)pick(a.y, o) + at;
		*y = f32_to_f16(f16_to_f32(*y) + sum);
	}
}
