/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values in 8 bits (kernels/ops/kv_bytes.h): rows that become bytes, and bytes that
 * become halves on their way to LDS. A half is (byte - 128) * scale, rounded once, the same in
 * every kernel. A row's scale depends on its halves alone, so all kernels make the same scale.
 */
#pragma once
#include "kernels/device/dialect.h"

#define BYTES_NAN 0x7E00u /* scale of a row with an infinity or NaN */

/* --- to halves -------------------------------------------------------------------- */

/* Four bytes to halves. scale: an f16, in both halves of the word. */
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

/* Sixteen bytes to halves at `to`. scale: an f16, in the low half of the word. */
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
	float inverse;  /* 1 / scale; 0 if the row is all zeros, or has an infinity or NaN */
};

/* The scale of a row and its inverse. most: bits of the row's largest magnitude. */
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

/* --- a row of at most 256 halves, eight in each lane of a wave, lane by lane ---------- */

/* This lane's eight halves of a row in LDS or memory. Lanes beyond the row's end get its first
 * eight. */
DEVICE u32x4 bytes_row_of(const uint16_t *x, int32_t dim)
{
	int32_t at = 8 * (int32_t)lane_index();
	return *(const u32x4 *)(x + (at < dim ? at : 0));
}

DEVICE void bytes_row_to(const u32x4 &x, int32_t dim, uint16_t *to)
{
	int32_t at = 8 * (int32_t)lane_index();
	if (at < dim)
		*(u32x4 *)(to + at) = x;
}

/* One step of the Hadamard transform: sums and differences of this lane's eight numbers and those
 * of lane xor M. */
template <int M> DEVICE void bytes_hadamard_lanes(float *x)
{
	bool is_low = !(lane_index() & M);
	UNROLL
	for (int i = 0; i < 8; i++) {
		float other = wave_xor<M>(x[i]);
		x[i] = is_low ? x[i] + other : other - x[i];
	}
}

template <int M> DEVICE void bytes_hadamard_eight(float *x)
{
	UNROLL
	for (int i = 0; i < 8; i++)
		if (!(i & M)) {
			float a = x[i], b = x[i + M];
			x[i] = a + b;
			x[i + M] = a - b;
		}
}

/* Hadamard transform of the row (kernels/ops/kv_bytes.h) in f32, rounded once to halves. Blocks
 * have 16 elements or more. All lanes of a wave must call it. */
DEVICE void bytes_hadamard_row(u32x4 *row, int32_t dim)
{
	int32_t block = dim & -dim;
	float x[8], factor = fast_rsqrt((float)block);
	UNROLL
	for (int i = 0; i < 8; i++)
		x[i] = f16_to_f32((uint16_t)((*row)[i / 2] >> i % 2 * 16));
	bytes_hadamard_eight<1>(x);
	bytes_hadamard_eight<2>(x);
	bytes_hadamard_eight<4>(x);
	bytes_hadamard_lanes<1>(x);
	if (block > 16)
		bytes_hadamard_lanes<2>(x);
	if (block > 32)
		bytes_hadamard_lanes<4>(x);
	if (block > 64)
		bytes_hadamard_lanes<8>(x);
	if (block > 128)
		bytes_hadamard_lanes<16>(x);
	UNROLL
	for (int i = 0; i < 8; i += 2)
		(*row)[i / 2] = (uint32_t)f32_to_f16(x[i] * factor) |
				(uint32_t)f32_to_f16(x[i + 1] * factor) << 16;
}

/* Stores the row in 8 bits, and sets x to the values of these bytes. */
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
