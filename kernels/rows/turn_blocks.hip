/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/turn_blocks.h
 * LAYOUT    x, y (T, F) f16 or f32; base (order, order), before, after (n) f32
 * GEOMETRY  workgroups of 256 threads, one for each span of 256 numbers of y, or for a line of
 *           n / order if that is longer: (F over span, T). LDS: four bytes a number of a span
 * PRECISION sums in f32, rounded once at the end
 * ROOFLINE  at decode bound by launch overhead: 8 KB of x for F = 4,096. Each number of y reads
 *           `order` numbers of x from the cache; a fast transform of L numbers passes LDS
 *           2 log2(L) times
 * TRIED     the small matrix behind the fast transform: a workgroup would need all of a block,
 *           which does not fit in LDS from 16,384 numbers on
 * SEE       kernels/ops/turn_blocks_ref.c
 */
#include "kernels/device/dialect.h"
#include "kernels/rows/turn_blocks_launch.h"

/* Number i of a row, with its sign. */
DEVICE float turn_input(const turn_launch &a, size_t row, int32_t i, int32_t in_block)
{
	float x = a.x_is_f32 ? ((const float *)a.x)[row + (size_t)i]
			     : f16_to_f32(((const uint16_t *)a.x)[row + (size_t)i]);
	return a.before ? x * a.before[in_block] : x;
}

/* Where number `at` of a row is in its block. */
DEVICE int32_t turn_place(const turn_launch &a, int32_t at)
{
	return (int32_t)((uint32_t)at % (uint32_t)a.n);
}

/* Number `at` of a row behind the small matrix. */
DEVICE float turn_small(const turn_launch &a, size_t row, int32_t at)
{
	int32_t to = turn_place(a, at), first = at - to;
	int32_t in = to & (a.line - 1), column = to >> a.line_shift;
	float sum = 0;
	if (!a.base)
		return turn_input(a, row, at, to);
	for (int32_t k = 0; k < a.order; k++, in += a.line)
		sum += turn_input(a, row, first + in, in) * a.base[k * a.order + column];
	return sum;
}

DEVICE void turn_put(const turn_launch &a, size_t at, float y)
{
	if (a.store == TURN_TO_F16)
		((uint16_t *)a.y)[at] = f32_to_f16(y);
	else if (a.store == TURN_TO_F32)
		((float *)a.y)[at] = y;
	else
		((float *)a.y)[at] += y;
}

KERNEL(TURN_THREADS)
void turn_blocks_kernel(turn_launch a)
{
	LDS_DYNAMIC(float, z);
	int32_t me = (int32_t)thread_index(), begin = (int32_t)group_index_x() * a.span;
	size_t row = (size_t)group_index_y() * (size_t)a.dim;
	for (int32_t e = me; e < a.span; e += TURN_THREADS)
		z[e] = begin + e < a.dim ? turn_small(a, row, begin + e) : 0;
	group_barrier();
	for (int32_t half = 1; half < a.line; half *= 2) {
		for (int32_t p = me; p < a.span / 2; p += TURN_THREADS) {
			int32_t low = p & (half - 1), i = (p - low) * 2 + low;
			float u = z[i], v = z[i + half];
			z[i] = u + v;
			z[i + half] = u - v;
		}
		group_barrier();
	}
	for (int32_t e = me; e < a.span && begin + e < a.dim; e += TURN_THREADS) {
		float y = z[e] * a.scale;
		if (a.after)
			y *= a.after[turn_place(a, begin + e)];
		turn_put(a, row + (size_t)(begin + e), y);
	}
}
