/* SPDX-License-Identifier: Apache-2.0
 *
 * Norm and rotation of a head by one wave, with the same bits in every kernel that uses
 * it (kernels/ops/qk_norm_rope_kv.h has the formula).
 *
 * A lane takes W neighbouring elements at a time. With n = n_freq and i = (32 s + lane)
 * W, slot s of the lane is the elements from i + n on. If i < n, the slot also has the
 * elements from i on, which rotate with these. So all slots together have each element
 * once. W = 2 needs even n and head_dim.
 */
#pragma once
#include "kernels/device/dialect.h"

/* sum plus the squares of W numbers. */
template <int W> DEVICE float head_squares(const float *x, float sum)
{
	UNROLL
	for (int j = 0; j < W; j++)
		sum = fma_f32(x[j], x[j], sum);
	return sum;
}

/* The norm's factor of a head, 1 / sqrt(mean square + eps). squares: this lane's sum. All
 * lanes of a wave must call it. */
DEVICE float head_scale(float squares, int32_t head_dim, float eps, int site = CALL_SITE)
{
	return fast_rsqrt(fma_f32(wave_sum(squares, site), fast_rcp((float)head_dim), eps));
}

template <int W> DEVICE void head_normalise(const float *norm, float scale, float *x)
{
	UNROLL
	for (int j = 0; j < W; j++)
		x[j] = x[j] * scale * norm[j];
}

/* Rotate the pairs (lo, hi); rope: cosine and sine of each. */
template <int W> DEVICE void head_rotate(const float *rope, float *lo, float *hi)
{
	UNROLL
	for (int j = 0; j < W; j++) {
		float c = rope[2 * j], s = rope[2 * j + 1], x = lo[j], y = hi[j];
		lo[j] = fma_f32(x, c, -(y * s));
		hi[j] = fma_f32(y, c, x * s);
	}
}

/* Unpack the two halves of a word. */
DEVICE void head_unpack(uint32_t both, float *out)
{
	out[0] = f16_to_f32((uint16_t)both);
	out[1] = f16_to_f32((uint16_t)(both >> 16));
}

DEVICE uint32_t head_pack(const float *x)
{
	return f32_to_f16(x[0]) | (uint32_t)f32_to_f16(x[1]) << 16;
}
