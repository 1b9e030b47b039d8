/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/lora_add.h: low = scale s A x, then y += B low
 * LAYOUT    A (R, K) and B (R, N) f32, f16 or bf16, x (T, K) f16, y (T, N) f32 or f16; or all of
 *           them of each head
 * GEOMETRY  workgroups of 512 threads. A thread has four elements of x, and 16 rows of A at once.
 *           few: each workgroup computes all of low for itself, and then an element of y a thread,
 *           (the outputs' N over 512, times heads, T). LDS: the waves' sums, and low.
 *           Many tokens take two launches with the same bits. low: 16 rows of A a workgroup,
 *           (R over 16 times outputs or heads, T); high: as few, without LDS
 * PRECISION f32; y in f16 is rounded once more
 * ROOFLINE  bound by its launch and latency at decode: A and B of rank 16 of Qwen3-30B-A3B's q, k
 *           and v are 0.37 MB, 1.5 us at 256 GB/s. B and y are loaded before low is there. At
 *           prefill each token reads A and B again, from the cache
 * TRIED     a row of A a wave, a number a lane: bound by latency, three times as slow. (by
 *           prediction) few tokens by two launches, too: 3.3 us more for a layer's q, k and v
 * SEE       kernels/ops/lora_add_ref.c
 */
#include "kernels/rows/lora_rows.h"

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

/* x of head h of token t. */
DEVICE lora_input input_of(const lora_launch &a, uint32_t t, uint32_t h)
{
	size_t row = (size_t)t * (size_t)a.n_heads + h;
	return {a.x + row * (size_t)a.x_pitch, h * (size_t)a.a_step, (size_t)a.a_width, a.n_in,
		a.by_fours != 0};
}

KERNEL(LORA_THREADS)
void lora_low_kernel(lora_launch a)
{
	LDS(float, part, LORA_THREADS / WAVE * LORA_ROWS);
	uint32_t t = group_index_y(), pieces = ((uint32_t)a.rank + LORA_ROWS - 1) / LORA_ROWS;
	uint32_t row = group_index_x() / pieces;
	uint32_t o = a.n_heads == 1 ? row : 0, h = a.n_heads == 1 ? 0 : row;
	int32_t r0 = (int32_t)(group_index_x() % pieces * LORA_ROWS);
	lora_part p = part_of(a, o, t);
	size_t lows = (size_t)(a.n_out * a.n_heads);
	float *low = a.low + ((size_t)t * lows + row) * (size_t)a.rank;
	float scale = p.scale * a.scale[t];
	if (r0 >= p.rank)
		return;
	if (p.type == LORA_F32)
		lora_low<LORA_F32>(p, input_of(a, t, h), r0, scale, part, low);
	else if (p.type == LORA_F16)
		lora_low<LORA_F16>(p, input_of(a, t, h), r0, scale, part, low);
	else
		lora_low<LORA_BF16>(p, input_of(a, t, h), r0, scale, part, low);
}

/* A workgroup's piece of an output, and this thread's element. */
struct lora_piece {
	uint32_t t, o, h;
	bool is_in, is_f32, is_new;
	void *y;         /* f32, or f16 */
	size_t at;       /* the element's place in y */
	int32_t b, rows; /* its row of B, of so many */
};

DEVICE lora_piece piece_of(const lora_launch &a)
{
	lora_piece out = {};
	uint32_t n_heads = (uint32_t)a.n_heads;
	int32_t piece = (int32_t)(group_index_x() / n_heads), size = a.n[0];
	out.t = group_index_y();
	out.h = n_heads == 1 ? 0 : group_index_x() % n_heads;
	while (piece >= (size + LORA_THREADS - 1) / LORA_THREADS) {
		piece -= (size + LORA_THREADS - 1) / LORA_THREADS;
		size = pick(a.n, ++out.o);
	}
	int32_t n = piece * LORA_THREADS + (int32_t)thread_index();
	size_t pitch = (size_t)(a.y_pitch ? a.y_pitch : size);
	out.is_in = n < size;
	out.is_f32 = pick(a.is_f32, out.o);
	out.is_new = pick(a.is_new, out.o);
	out.y = pick(a.y, out.o);
	out.at = ((size_t)out.t * n_heads + out.h) * pitch + (size_t)n;
	out.b = (out.is_in ? n : size - 1) + (int32_t)out.h * a.b_step;
	out.rows = size + a.b_more;
	return out;
}

/* Adds B low to y, or stores it. FEW: low is computed first, in lds. */
template <int TYPE, bool FEW>
DEVICE void lora_piece_add(const lora_launch &a, const lora_part &p, const lora_piece &w,
			   float *lds)
{
	auto ahead = lora_load_ahead<TYPE, LORA_ROWS>(p, 0, w.b, w.rows);
	uint32_t bits = 0;
	float y = -0.f;
	if (w.is_in && !w.is_new && w.is_f32)
		bits = ((const uint32_t *)w.y)[w.at];
	else if (w.is_in && !w.is_new)
		bits = ((const uint16_t *)w.y)[w.at];
	if constexpr (FEW) {
		const float *low = lora_own_low<TYPE>(p, input_of(a, w.t, w.h),
						      p.scale * a.scale[w.t], lds);
		y = lora_high<TYPE>(p, [&](int32_t r) { return low[r]; }, w.b, w.rows, ahead);
	} else {
		size_t row = a.n_heads == 1 ? (size_t)w.t * (size_t)a.n_out + w.o
					    : (size_t)w.t * (size_t)a.n_heads + w.h;
		const float *low = a.low + row * (size_t)a.rank;
		y = lora_high<TYPE>(p, [&](int32_t r) { return low[r]; }, w.b, w.rows, ahead);
	}
	if (!w.is_new)
		y += w.is_f32 ? bits_cast<float>(bits) : f16_to_f32((uint16_t)bits);
	if (w.is_in && w.is_f32)
		((float *)w.y)[w.at] = y;
	else if (w.is_in)
		((uint16_t *)w.y)[w.at] = f32_to_f16(y);
}

template <bool FEW> DEVICE void lora_add_any(const lora_launch &a, float *lds)
{
	lora_piece w = piece_of(a);
	lora_part p = part_of(a, w.o, w.t);
	if (p.rank == 0) {
		if (w.is_new && w.is_in)
			((float *)w.y)[w.at] = -0.f;
		return;
	}
	if (p.type == LORA_F32)
		lora_piece_add<LORA_F32, FEW>(a, p, w, lds);
	else if (p.type == LORA_F16)
		lora_piece_add<LORA_F16, FEW>(a, p, w, lds);
	else
		lora_piece_add<LORA_BF16, FEW>(a, p, w, lds);
}

KERNEL(LORA_THREADS)
void lora_few_kernel(lora_launch a)
{
	LDS_DYNAMIC(float, lds);
	lora_add_any<true>(a, lds);
}

KERNEL(LORA_THREADS)
void lora_high_kernel(lora_launch a)
{
	lora_add_any<false>(a, nullptr);
}
