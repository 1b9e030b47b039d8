/* SPDX-License-Identifier: Apache-2.0
 *
 * The two products of a LoRA adapter, low = A x and B low, by threads that take up to LORA_ROWS
 * rows at once. For lora_add.hip and moe_lora.hip.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/rows/lora_launch.h"

template <int TYPE> DEVICE float lora_16(uint32_t bits)
{
	return TYPE == LORA_F16 ? f16_to_f32((uint16_t)bits) : bf16_to_f32((uint16_t)bits);
}

/* Element i of a matrix. */
template <int TYPE> DEVICE float lora_number(const void *p, size_t i)
{
	if (TYPE == LORA_F32)
		return load_global<float>((const float *)p + i);
	return lora_16<TYPE>(load_global<uint16_t>((const uint16_t *)p + i));
}

/* Four numbers of a matrix, or of x, from element i on. */
template <int TYPE> DEVICE void lora_load_four(const void *p, size_t i, float *out)
{
	if constexpr (TYPE == LORA_F32) {
		u32x4 bits = load_global<u32x4>((const float *)p + i);
		UNROLL
		for (int32_t e = 0; e < 4; e++)
			out[e] = bits_cast<float>(bits[e]);
	} else {
		u32x2 bits = load_global<u32x2>((const uint16_t *)p + i);
		UNROLL
		for (int32_t e = 0; e < 4; e++)
			out[e] = lora_16<TYPE>(bits[e / 2] >> e % 2 * 16);
	}
}

/* What A is multiplied by: x (K) f16, by columns of A from `at` on. A row has `pitch`. */
struct lora_input {
	const uint16_t *x;
	size_t at, pitch;
	int32_t n_in;
	bool by_fours; /* A and x begin, and their rows end, at multiples of four */
};

/* Index of row r0 + i of A. Beyond the rank it is the last row, of which the sums are not used. */
DEVICE size_t lora_row(const lora_part &p, const lora_input &v, int32_t r0, int32_t i)
{
	int32_t r = r0 + i < p.rank ? r0 + i : p.rank - 1;
	return v.at + (size_t)r * v.pitch;
}

/* sum[i] += the part of thread `mine` of n in the product of x and row r0 + i. */
template <int TYPE, int ROWS>
DEVICE void lora_products(const lora_part &p, const lora_input &v, int32_t r0, int32_t mine,
			  int32_t n, float (&sum)[ROWS])
{
	if (!v.by_fours) {
		for (int32_t k = mine; k < v.n_in; k += n) {
			float x = f16_to_f32(load_global<uint16_t>(v.x + k));
			UNROLL
			for (int32_t i = 0; i < ROWS; i++)
				sum[i] = fma_f32(lora_number<TYPE>(p.a, lora_row(p, v, r0, i) +
								   (size_t)k), x, sum[i]);
		}
		return;
	}
	for (int32_t k = mine * 4; k < v.n_in; k += n * 4) {
		float x[4], a[ROWS][4];
		lora_load_four<LORA_F16>(v.x, (size_t)k, x);
		UNROLL
		for (int32_t i = 0; i < ROWS; i++)
			lora_load_four<TYPE>(p.a, lora_row(p, v, r0, i) + (size_t)k, a[i]);
		UNROLL
		for (int32_t i = 0; i < ROWS; i++)
			UNROLL
			for (int32_t e = 0; e < 4; e++)
				sum[i] = fma_f32(a[i][e], x[e], sum[i]);
	}
}

/* to[i], in LDS: the sum over the wave of sum[i]. */
template <int ROWS> DEVICE void lora_wave_sums(const float (&sum)[ROWS], float *to)
{
	UNROLL
	for (int32_t i = 0; i < ROWS; i++) {
		float all = wave_sum(sum[i]);
		if (lane_index() == 0)
			to[i] = all;
	}
}

/* low[r] = scale (A x)[r] of rows r0 to r0 + LORA_ROWS, by a workgroup of LORA_THREADS. part: LDS,
 * LORA_ROWS numbers a wave, which may be used again after a group_barrier(). */
template <int TYPE>
DEVICE void lora_low(const lora_part &p, const lora_input &v, int32_t r0, float scale, float *part,
		     float *low)
{
	enum { WAVES = LORA_THREADS / WAVE };
	int32_t mine = (int32_t)thread_index();
	float sum[LORA_ROWS] = {};
	lora_products<TYPE>(p, v, r0, mine, LORA_THREADS, sum);
	lora_wave_sums(sum, part + wave_index() * LORA_ROWS);
	group_barrier();
	if (mine >= LORA_ROWS || r0 + mine >= p.rank)
		return;
	float all = 0;
	UNROLL
	for (int32_t w = 0; w < WAVES; w++)
		all += part[w * LORA_ROWS + mine];
	low[r0 + mine] = all * scale;
}

/* All of low, to lds behind the waves' sums, for all threads. Returns where it is. */
template <int TYPE>
DEVICE const float *lora_own_low(const lora_part &p, const lora_input &v, float scale, float *lds)
{
	float *low = lds + LORA_THREADS / WAVE * LORA_ROWS;
	for (int32_t r0 = 0; r0 < p.rank; r0 += LORA_ROWS) {
		if (r0)
			group_barrier();
		lora_low<TYPE>(p, v, r0, scale, lds, low);
	}
	group_barrier();
	return low;
}

/* Numbers of B as they are in memory, of row n, for ranks from r0 on. They may be loaded before low
 * is there. */
template <int TYPE, int ROWS> struct lora_ahead {
	uint32_t bits[ROWS];
};

template <int TYPE, int ROWS>
DEVICE lora_ahead<TYPE, ROWS> lora_load_ahead(const lora_part &p, int32_t r0, int32_t n,
					      int32_t size)
{
	lora_ahead<TYPE, ROWS> out;
	UNROLL
	for (int32_t i = 0; i < ROWS; i++) {
		int32_t r = r0 + i < p.rank ? r0 + i : p.rank - 1;
		size_t at = (size_t)r * (size_t)size + (size_t)n;
		out.bits[i] = TYPE == LORA_F32
				      ? load_global<uint32_t>((const uint32_t *)p.b + at)
				      : load_global<uint16_t>((const uint16_t *)p.b + at);
	}
	return out;
}

template <int TYPE, int ROWS>
DEVICE float lora_ahead_at(const lora_ahead<TYPE, ROWS> &b, int32_t i)
{
	return TYPE == LORA_F32 ? bits_cast<float>(b.bits[i]) : lora_16<TYPE>(b.bits[i]);
}

/* Row n of B low, of `size`. low(r) is a number of it; first: those of rank 0 and on. */
template <int TYPE, class F>
DEVICE float lora_high(const lora_part &p, F low, int32_t n, int32_t size,
		       lora_ahead<TYPE, LORA_ROWS> first)
{
	float sum = 0;
	for (int32_t r0 = 0; r0 < p.rank; r0 += LORA_ROWS) {
		if (r0)
			first = lora_load_ahead<TYPE, LORA_ROWS>(p, r0, n, size);
		UNROLL
		for (int32_t i = 0; i < LORA_ROWS; i++) {
			float b = lora_ahead_at(first, i);
			float with = fma_f32(low(r0 + i < p.rank ? r0 + i : 0), b, sum);
			sum = r0 + i < p.rank ? with : sum;
		}
	}
	return sum;
}
