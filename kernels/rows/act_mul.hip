/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/act_mul.h
 * LAYOUT    gate, up, y (n) f16, 16-byte aligned, n = T * F; y may be gate or up.
 *           gelu_rows: rows of up are wider
 * GEOMETRY  workgroups of 256 threads, eight numbers a thread. gelu_rows: (F over 256, T),
 *           a number a thread
 * PRECISION in f32, rounded once; exp2 and rcp within a unit of the last place of f32
 * ROOFLINE  memory: three streams, 6 bytes a number
 * TRIED     a division in place of rcp: nine instructions instead of one
 * SEE       kernels/ops/act_mul_ref.c
 */
#include "kernels/rows/silu.h"

enum { ACT_MUL_THREADS = 256, ACT_MUL_EACH = 8 };

/* silu(gate) * up, for halves in the low 16 bits. */
DEVICE uint32_t silu_one(uint32_t gate, uint32_t up, float, float)
{
	return silu_mul_one(gate, up);
}

/* gelu(g) = g / (1 + exp(-2 z)), because tanh(z) = 2 / (1 + exp(-2 z)) - 1. Clamping g at
 * -10 keeps the cube finite for every half; below that the result is practically zero. */
DEVICE uint32_t gelu_one(uint32_t gate, uint32_t up, float, float)
{
	float g = f16_to_f32((uint16_t)gate), u = f16_to_f32((uint16_t)up);
	g = g < -10 ? -10 : g;
	/* z is scaled for exp2: 2.302... = 2 sqrt(2 / pi) log2(e). */
	float z = 2.302208198f * (g + 0.044715f * g * g * g);
	return f32_to_f16(g * fast_rcp(1 + fast_exp2(-z)) * u);
}

DEVICE uint32_t clamped_one(uint32_t gate, uint32_t up, float alpha, float limit)
{
	float g = f16_to_f32((uint16_t)gate), u = f16_to_f32((uint16_t)up);
	g = g > limit ? limit : g;
	u = u > limit ? limit : u < -limit ? -limit : u;
	float e = fast_exp2(g * alpha * -1.44269504f);
	return f32_to_f16(g * fast_rcp(1 + e) * (u + 1));
}

DEVICE uint32_t clipped_one(uint32_t gate, uint32_t up, float gate_limit, float limit)
{
	float g = f16_to_f32((uint16_t)gate), u = f16_to_f32((uint16_t)up);
	g = g > gate_limit ? gate_limit : g;
	u = u > limit ? limit : u < -limit ? -limit : u;
	return f32_to_f16(g * fast_rcp(1 + fast_exp2(g * -1.44269504f)) * u);
}

DEVICE uint32_t scaled_one(uint32_t gate, uint32_t up, float alpha, float scale)
{
	float g = f16_to_f32((uint16_t)gate) * alpha, u = f16_to_f32((uint16_t)up) * scale;
	return f32_to_f16(g * fast_rcp(1 + fast_exp2(g * -1.44269504f)) * u);
}

/* A gate below 0 has bit 15. A square beyond the range of halves becomes the largest half. */
DEVICE uint32_t relu_one(uint32_t gate, uint32_t up, float, float)
{
	float y = f16_to_f32((uint16_t)gate) * f16_to_f32((uint16_t)up);
	y = y > 65504 ? 65504 : y < -65504 ? -65504 : y;
	return gate & 0x8000 ? 0u : f32_to_f16(y);
}

template <uint32_t act(uint32_t, uint32_t, float, float)>
DEVICE void act_mul(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y,
		    float alpha = 0, float limit = 0) /* or gate_limit; or scale */
{
	uint64_t i = ((uint64_t)group_index_x() * ACT_MUL_THREADS + thread_index()) *
		     ACT_MUL_EACH;
	if (i + ACT_MUL_EACH <= n) {
		u32x4 g = *(const u32x4 *)(gate + i), u = *(const u32x4 *)(up + i), out;
		UNROLL
		for (int j = 0; j < 4; j++)
			out[j] = act(g[j], u[j], alpha, limit) |
				 act(g[j] >> 16, u[j] >> 16, alpha, limit) << 16;
		*(u32x4 *)(y + i) = out;
		return;
	}
	for (; i < n; i++)
		y[i] = (uint16_t)act(gate[i], up[i], alpha, limit);
}

KERNEL(ACT_MUL_THREADS)
void silu_mul_kernel(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y)
{
	act_mul<silu_one>(n, gate, up, y);
}

KERNEL(ACT_MUL_THREADS)
void gelu_mul_kernel(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y)
{
	act_mul<gelu_one>(n, gate, up, y);
}

KERNEL(ACT_MUL_THREADS)
void relu_mul_kernel(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y)
{
	act_mul<relu_one>(n, gate, up, y);
}

KERNEL(ACT_MUL_THREADS)
void clamped_mul_kernel(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y,
			float alpha, float limit)
{
	act_mul<clamped_one>(n, gate, up, y, alpha, limit);
}

KERNEL(ACT_MUL_THREADS)
void clipped_mul_kernel(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y,
			float gate_limit, float limit)
{
	act_mul<clipped_one>(n, gate, up, y, gate_limit, limit);
}

KERNEL(ACT_MUL_THREADS)
void scaled_mul_kernel(uint64_t n, const uint16_t *gate, const uint16_t *up, uint16_t *y,
		       float alpha, float scale)
{
	act_mul<scaled_one>(n, gate, up, y, alpha, scale);
}

KERNEL(ACT_MUL_THREADS)
void gelu_rows_kernel(int32_t dim, int32_t up_pitch, const uint16_t *gate, const uint16_t *up,
		      uint16_t *y)
{
	int32_t i = (int32_t)(group_index_x() * ACT_MUL_THREADS + thread_index());
	size_t t = group_index_y(), at = t * (size_t)dim + (size_t)i;
	if (i < dim)
		y[at] = (uint16_t)gelu_one(gate[at], up[t * (size_t)up_pitch + (size_t)i], 0, 0);
}
