/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values in 8 bits (kernels/ops/kv_bytes.h): rows that become bytes, and bytes that
 * become halves on their way to LDS. A half is (byte - 128) * scale, rounded once, the same in
 * every kernel. A row's scale comes of its halves, so where it was made does not matter.
 */
#pragma once
#include "kernels/device/dialect.h"

#define BYTES_NAN 0x7E00u /* scale of a row with an infinity or NaN */

/* --- to halves -------------------------------------------------------------------- */

/* Four bytes. scale: twice in a word. */
DEVICE void bytes_widen4(uint32_t bytes, uint32_t scale, uint32_t *out)
{
	/* 0x6400 | byte is 1024 + byte, and 0x6480 is 1152 */
	uint32_t low = permute_bytes<0x4140>(bytes, 0x64646464u);
	uint32_t high = permute_bytes<0x4342>(bytes, 0x64646464u);
	out[0] = fma2_f16(sub2_f16(low, 0x64806480u), scale, 0);
	out[1] = fma2_f16(sub2_f16(high, 0x64806480u), scale, 0);
}

DEVICE u32x4 bytes_widen8(uint32_t low, uint32_t high, uint32_t scale)
{
	uint32_t w[4];
	bytes_widen4(low, scale, w);
	bytes_widen4(high, scale, w + 2);
	return u32x4{w[0], w[1], w[2], w[3]};
}

/* Sixteen bytes as halves at `to`. scale: once. */
DEVICE void bytes_widen16(const u32x4 &bytes, uint32_t scale, uint16_t *to)
{
	scale |= scale << 16;
	*(u32x4 *)to = bytes_widen8(bytes[0], bytes[1], scale);
	*(u32x4 *)(to + 8) = bytes_widen8(bytes[2], bytes[3], scale);
}

/* --- to bytes --------------------------------------------------------------------- */

/* The larger of `most` and the magnitudes of two halves, as bits. NaN is the largest. */
DEVICE uint32_t bytes_most2(uint32_t halves, uint32_t most)
{
	uint32_t low = halves & 0x7FFFu, high = halves >> 16 & 0x7FFFu;
	most = low > most ? low : most;
	return high > most ? high : most;
}

struct bytes_step {
	uint32_t scale; /* f16 */
	float inverse;  /* 1 / scale; 0 for a row of zeros or of no numbers */
};

/* most: bits of the row's largest magnitude. */
DEVICE bytes_step bytes_step_of(uint32_t most)
{
	bool is_number = most < 0x7C00u;
	uint32_t scale = f32_to_f16(f16_to_f32((uint16_t)most) * (1.0f / 127));
	float step = f16_to_f32((uint16_t)scale);
	return {is_number ? scale : BYTES_NAN,
		is_number && scale != 0 ? fast_rcp(step) : 0.0f};
}

/* The byte that stands for x. Adding 1.5 * 2^23 rounds to a whole number. */
DEVICE uint32_t bytes_code(float x, float inverse)
{
	float sum = fma_f32(x, inverse, 12583040.0f);
	int32_t q = (int32_t)(bits_cast<uint32_t>(sum) - 0x4B400000u);
	q = q > 1 ? q : 1;
	return (uint32_t)(q < 255 ? q : 255);
}

/* Two bytes for two halves. */
DEVICE uint32_t bytes_code2(uint32_t halves, float inverse)
{
	return bytes_code(f16_to_f32((uint16_t)halves), inverse) |
	       bytes_code(f16_to_f32((uint16_t)(halves >> 16)), inverse) << 8;
}

/* A row of at most 256 halves, eight in each lane of a wave. x: those of this lane, which
 * begin with element 8 * lane. Sets x to what the bytes stand for. */
DEVICE void bytes_put_row(u32x4 *x, int32_t dim, uint8_t *bytes, uint16_t *scale)
{
	int32_t at = 8 * (int32_t)lane_index();
	uint32_t most = 0;
	UNROLL
	for (int i = 0; i < 4; i++)
		most = at < dim ? bytes_most2((*x)[i], most) : most;
	bytes_step s = bytes_step_of(wave_max(most));
	uint32_t low = bytes_code2((*x)[0], s.inverse) | bytes_code2((*x)[1], s.inverse) << 16;
	uint32_t high = bytes_code2((*x)[2], s.inverse) | bytes_code2((*x)[3], s.inverse) << 16;
	if (at < dim)
		*(u32x2 *)(bytes + at) = u32x2{low, high};
	if (lane_index() == 0)
		*scale = (uint16_t)s.scale;
	*x = bytes_widen8(low, high, s.scale | s.scale << 16);
}
