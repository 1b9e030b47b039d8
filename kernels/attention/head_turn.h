/* SPDX-License-Identifier: Apache-2.0
 *
 * A head's norm and rotation by a wave, with the same bits whoever asks
 * (kernels/ops/qk_norm_rope_kv.h has the formula). A lane takes W neighbours at a time: in
 * slot s those from element i + n on, where i = (32 s + lane) W and n = n_freq, and
 * where i < n also those from i on, which turn with them. So the slots of the lanes have
 * each element once. W = 2 needs n and head_dim even.
 */
#pragma once
#include "kernels/device/dialect.h"

/* sum + the squares of x. */
template <int W> DEVICE float head_squares(const float *x, float sum)
{
	UNROLL
	for (int j = 0; j < W; j++)
		sum = fma_f32(x[j], x[j], sum);
	return sum;
}

/* What the norm multiplies a head by; squares: the lane's. By all lanes of a wave. */
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

/* lo and hi turn; rope: cos and sin of each. */
template <int W> DEVICE void head_rotate(const float *rope, float *lo, float *hi)
{
	UNROLL
	for (int j = 0; j < W; j++) {
		float c = rope[2 * j], s = rope[2 * j + 1], x = lo[j], y = hi[j];
		lo[j] = fma_f32(x, c, -(y * s));
		hi[j] = fma_f32(y, c, x * s);
	}
}

/* Two elements in a word. */
DEVICE void head_unpack(uint32_t both, float *out)
{
	out[0] = f16_to_f32((uint16_t)both);
	out[1] = f16_to_f32((uint16_t)(both >> 16));
}

DEVICE uint32_t head_pack(const float *x)
{
	return f32_to_f16(x[0]) | (uint32_t)f32_to_f16(x[1]) << 16;
}
