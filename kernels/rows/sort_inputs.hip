/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      sort_inputs: y[t, i] = x[t, order[i]], the inputs of linear for a weight whose columns
 *           are sorted by group (struct weight.order)
 *           scale_inputs: y[t, i] = x[t, i] scale[i], for a weight with factors of its inputs
 *           (struct weight.in_scale)
 * LAYOUT    x, y (T, K) f16, order (K) i32, scale (K) f32; K is a multiple of 4
 * GEOMETRY  workgroups of 256 threads, four columns of up to eight tokens a thread:
 *           (K over 1,024, T over 8)
 * PRECISION sort_inputs copies bits; scale_inputs rounds a product in f32 to f16
 * ROOFLINE  bound by launch overhead at decode, then by memory: 4 bytes a number
 * TRIED     no other form. Through LDS each line of x would be read once; that is at most 4 % of
 *           a prompt of Qwen3-8B, by prediction
 * SEE       kernels/ops/linear_ref.c, which reads weights as they are stored
 */
#include "kernels/device/dialect.h"
#include "kernels/rows/sort_inputs.h"

KERNEL(SORT_INPUTS_THREADS)
void sort_inputs_kernel(int32_t n_tok, int32_t k, const uint16_t *x, const int32_t *order,
			uint16_t *y)
{
	int32_t i = (int32_t)(group_index_x() * SORT_INPUTS_THREADS + thread_index()) *
		    SORT_INPUTS_EACH;
	int32_t first = (int32_t)group_index_y() * SORT_INPUTS_TOK;
	int32_t last = first + SORT_INPUTS_TOK < n_tok ? first + SORT_INPUTS_TOK : n_tok;
	if (i >= k)
		return;
	u32x4 from = *(const u32x4 *)(order + i);
	for (int32_t t = first; t < last; t++) {
		const uint16_t *row = x + (size_t)t * (size_t)k;
		u32x2 out;
		out[0] = row[from[0]] | (uint32_t)row[from[1]] << 16;
		out[1] = row[from[2]] | (uint32_t)row[from[3]] << 16;
		*(u32x2 *)(y + (size_t)t * (size_t)k + i) = out;
	}
}

/* The half in the low bits of `half` times `by`. */
DEVICE uint32_t scaled(uint32_t half, float by)
{
	return f32_to_f16(f16_to_f32((uint16_t)half) * by);
}

KERNEL(SORT_INPUTS_THREADS)
void scale_inputs_kernel(int32_t n_tok, int32_t k, const uint16_t *x, const float *scale,
			 uint16_t *y)
{
	int32_t i = (int32_t)(group_index_x() * SORT_INPUTS_THREADS + thread_index()) *
		    SORT_INPUTS_EACH;
	int32_t first = (int32_t)group_index_y() * SORT_INPUTS_TOK;
	int32_t last = first + SORT_INPUTS_TOK < n_tok ? first + SORT_INPUTS_TOK : n_tok;
	if (i >= k)
		return;
	float by[SORT_INPUTS_EACH];
	for (int j = 0; j < SORT_INPUTS_EACH; j++)
		by[j] = scale[i + j];
	for (int32_t t = first; t < last; t++) {
		size_t at = (size_t)t * (size_t)k + (size_t)i;
		u32x2 in = *(const u32x2 *)(x + at), out;
		for (int j = 0; j < SORT_INPUTS_EACH / 2; j++)
			out[j] = scaled(in[j], by[2 * j]) |
				 scaled(in[j] >> 16, by[2 * j + 1]) << 16;
		*(u32x2 *)(y + at) = out;
	}
}
