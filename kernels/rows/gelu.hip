/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/gelu.h. Phi(-a) = exp(-a^2 / 2) P(t) with t = 1 / (1 + 0.29 a), the
 *           form of Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 7.1.26.
 *           P was fitted anew, by least relative error for a from 0 to 6.
 * LAYOUT    x (n) f16, 16-byte aligned, n = T * F, changed in place
 * GEOMETRY  workgroups of 256 threads, eight numbers a thread
 * PRECISION in f32, rounded once. P is within 1.5e-6 of Phi(-a), a three-hundredth of f16's
 *           rounding; beyond 6 the result rounds to 0 or to x. An infinite x, which a matrix
 *           stores where its sum exceeds f16, counts as the largest half.
 * ROOFLINE  memory: 4 bytes a number. 512 patches of 4,304 numbers: 8.8 MB, 37 us at 240 GB/s,
 *           beside 0.34 ms for the two matrices around it at half of gfx1151's peak
 * TRIED     no other form
 * SEE       kernels/ops/gelu_ref.c
 */
#include "kernels/device/dialect.h"

enum { GELU_THREADS = 256, GELU_EACH = 8 };

/* The magnitude of a half. Infinity counts as the largest half. */
DEVICE float gelu_size(uint32_t half)
{
	uint32_t m = half & 0x7FFF;
	return f16_to_f32((uint16_t)(m == 0x7C00 ? 0x7BFF : m));
}

/* GELU of a is a / (1 + exp(-2 z)), because tanh(z) = 2 / (1 + exp(-2 z)) - 1. GELU of -a is
 * that less a. */
DEVICE uint32_t gelu_by_tanh(uint32_t half)
{
	float a = gelu_size(half);
	/* z is scaled for exp2: 2.302... = 2 sqrt(2 / pi) log2(e). */
	float e = fast_exp2(-2.302208198f * (a + 0.044715f * a * a * a));
	float above = a * fast_rcp(1 + e);
	return f32_to_f16(half & 0x8000 ? -above * e : above);
}

DEVICE uint32_t gelu_by_erf(uint32_t half)
{
	float a = gelu_size(half), t = fast_rcp(1 + 0.29f * a);
	float p = 0.293737428f - 0.090977226f * t;
	p = fma_f32(p, t, -0.107251197f);
	p = fma_f32(p, t, 0.190302413f);
	p = fma_f32(p, t, 0.096766429f);
	p = fma_f32(p, t, 0.117422763f);
	/* 0.721... = log2(e) / 2 */
	float below = a * (p * t * fast_exp2(a * a * -0.7213475204f));
	return f32_to_f16(half & 0x8000 ? -below : a - below);
}

template <uint32_t one(uint32_t)> DEVICE void gelu(uint64_t n, uint16_t *x)
{
	uint64_t i = ((uint64_t)group_index_x() * GELU_THREADS + thread_index()) * GELU_EACH;
	if (i + GELU_EACH <= n) {
		u32x4 in = *(const u32x4 *)(x + i), out;
		UNROLL
		for (int j = 0; j < 4; j++)
			out[j] = one(in[j]) | one(in[j] >> 16) << 16;
		*(u32x4 *)(x + i) = out;
		return;
	}
	for (; i < n; i++)
		x[i] = (uint16_t)one(x[i]);
}

KERNEL(GELU_THREADS) void gelu_tanh_kernel(uint64_t n, uint16_t *x)
{
	gelu<gelu_by_tanh>(n, x);
}

KERNEL(GELU_THREADS) void gelu_erf_kernel(uint64_t n, uint16_t *x)
{
	gelu<gelu_by_erf>(n, x);
}
