/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/silu_mul.h
 * LAYOUT    gate, up, y (n) f16, 16-byte aligned, n = T * F; y may be gate or up
 * GEOMETRY  workgroups of 256 threads, eight numbers a thread
 * PRECISION in f32, rounded once; exp2 and rcp within a unit of the last place of f32
 * ROOFLINE  three streams: 6 bytes a number
 * TRIED     a division in place of rcp: nine instructions for one
 * SEE       kernels/ops/silu_mul_ref.c
 */
#include "kernels/rows/silu.h"

enum { SILU_MUL_THREADS = 256, SILU_MUL_EACH = 8 };

KERNEL(SILU_MUL_THREADS)
void silu_mul_kernel(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y)
{
	uint64_t i = ((uint64_t)group_index_x() * SILU_MUL_THREADS + thread_index()) *
		     SILU_MUL_EACH;
	if (i + SILU_MUL_EACH <= n) {
		u32x4 g = *(const u32x4 *)(gate + i), u = *(const u32x4 *)(up + i), out;
		UNROLL
		for (int j = 0; j < 4; j++)
			out[j] = silu_mul_one(g[j], u[j]) |
				 silu_mul_one(g[j] >> 16, u[j] >> 16) << 16;
		*(u32x4 *)(y + i) = out;
		return;
	}
	for (; i < n; i++)
		y[i] = (uint16_t)silu_mul_one(gate[i], up[i]);
}
