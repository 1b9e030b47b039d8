/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights on the device, one element or one row at a time, any shape: what the
 * kernels use that are not the fast path of a format. The layout of each format is
 * told in model/formats/blocks.h.
 */
#pragma once
#include "kernels/weights/dequant_blocks.h"
#include "kernels/device/dialect.h"
#include "kernels/weights/weight_view.h"

DEVICE float scale_at(const void *p, int32_t format, size_t i)
{
	if (format == SCALE_F32)
		return load_global<float>((const float *)p + i);
	uint16_t h = load_global<uint16_t>((const uint16_t *)p + i);
	return format == SCALE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* A half has more exponent: the bits in its place read 2^-8, subnormals too. NaN, all
 * ones, carries into the half's highest bit of exponent when one is added. */
DEVICE float e4m3_to_f32(uint8_t b)
{
	uint32_t h = (b & 0x7Fu) << 7;
	h |= (h + 0x80) & 0x4000;
	return f16_to_f32((uint16_t)((b & 0x80u) << 8 | h)) * 256;
}

/* 255 is NaN. */
DEVICE float e8m0_to_f32(uint8_t b)
{
	uint32_t bits = b ? (uint32_t)b << 23 : 0x00400000u;
	return bits_cast<float>(b == 255 ? 0x7FC00000u : bits);
}

DEVICE float e2m1_to_f32(uint32_t nibble)
{
	return f16_to_f32((uint16_t)((nibble & 8) << 12 | (nibble & 7) << 9)) * 16384;
}

/* Four small floats, a byte each, as halves in two registers: of an e4m3 2^-8, of an e2m1
 * (the low nibble of the byte) 2^-14 of it. */
template <int format> DEVICE void small_halves(uint32_t q, uint32_t *out)
{
	if constexpr (format == WEIGHT_FP8) {
		/* s eeee mmm in a byte to s 0 eeee mmm 0000000 */
		uint32_t pair[2] = {permute_bytes<0x1404>(q, 0), permute_bytes<0x3424>(q, 0)};
		UNROLL
		for (int i = 0; i < 2; i++) {
			uint32_t h = pair[i] >> 1 & 0x3F803F80u;
			h |= (h + 0x00800080u) & 0x40004000u; /* NaN */
			out[i] = (pair[i] & 0x80008000u) | h;
		}
	} else {
		/* 0000 s eem in a byte: the high bytes of halves s 0000ee m0 */
		uint32_t high = (q & 0x08080808u) << 4 | (q & 0x07070707u) << 1;
		out[0] = permute_bytes<0x1404>(high, 0);
		out[1] = permute_bytes<0x3424>(high, 0);
	}
}

/* Formats of a byte or small floats. */
template <int format>
DEVICE float weight_small_at(const weight_view *w, const uint8_t *q, size_t row, int32_t i)
{
	int32_t n_groups = (w->k + w->group - 1) / w->group, g = i / w->group;
	size_t at = row / (size_t)w->group_n * (size_t)n_groups + (size_t)g;
	if constexpr (format == WEIGHT_INT8) {
		int32_t zero = 128;
		if (w->zero_points)
			zero = load_global<uint32_t>(w->zero_points +
						     row / 4 * (size_t)n_groups + (size_t)g) >>
				       row % 4 * 8 & 255;
		return (float)(load_global<uint8_t>(q + i) - zero) *
		       scale_at(w->scales, w->scale_format, at);
	} else if constexpr (format == WEIGHT_FP8) {
		return e4m3_to_f32(load_global<uint8_t>(q + i)) *
		       scale_at(w->scales, w->scale_format, at);
	} else {
		uint8_t s = load_global<uint8_t>((const uint8_t *)w->scales + at);
		float scale = format == WEIGHT_NVFP4 ? e4m3_to_f32(s) * w->factor
						     : e8m0_to_f32(s);
		return e2m1_to_f32(load_global<uint8_t>(q + i / 2) >> i % 2 * 4 & 15) * scale;
	}
}

/* Element (row, i). format is w->format as a constant. */
template <int format> DEVICE float weight_at(const weight_view *w, size_t row, int32_t i)
{
	const char *q = (const char *)w->q + row * (size_t)w->pitch;
	if constexpr (format == WEIGHT_F32)
		return load_global<float>((const float *)q + i);
	else if constexpr (format == WEIGHT_F16)
		return f16_to_f32(load_global<uint16_t>((const uint16_t *)q + i));
	else if constexpr (format == WEIGHT_BF16)
		return bf16_to_f32(load_global<uint16_t>((const uint16_t *)q + i));
	else if constexpr (is_block(format))
		return block_at<format>((const uint8_t *)q, i);
	else if constexpr (format != WEIGHT_INT4)
		return weight_small_at<format>(w, (const uint8_t *)q, row, i);
	int32_t n_groups = w->k / w->group, g = i / w->group;
	uint32_t word = load_global<uint32_t>((const uint32_t *)q + i / 8);
	int32_t nibble = word >> i % 8 * 4 & 15, zero = 8;
	if (w->zero_points)
		zero = load_global<uint32_t>(w->zero_points + row / 8 * (size_t)n_groups +
					     (size_t)g) >>
			       row % 8 * 4 & 15;
	return (float)(nibble - zero) *
	       scale_at(w->scales, w->scale_format, row * (size_t)n_groups + (size_t)g);
}

/* Sum over eight elements at p (f32, f16 or bf16) and x (f16), both 16-byte aligned. */
template <int format> DEVICE float dot8(const void *p, const uint16_t *x, float sum)
{
	u32x4 xs = *(const u32x4 *)x;
	if constexpr (format == WEIGHT_F32) {
		const u32x4 *w = (const u32x4 *)p;
		u32x4 part[2] = {load_global<u32x4>(w), load_global<u32x4>(w + 1)};
		UNROLL
		for (int i = 0; i < 8; i++)
			sum += bits_cast<float>((uint32_t)part[i / 4][i % 4]) *
			       f16_to_f32((uint16_t)(xs[i / 2] >> i % 2 * 16));
	} else {
		u32x4 w = load_global<u32x4>(p);
		UNROLL
		for (int i = 0; i < 8; i++) {
			uint16_t h = (uint16_t)(w[i / 2] >> i % 2 * 16);
			float f = format == WEIGHT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
			sum += f * f16_to_f32((uint16_t)(xs[i / 2] >> i % 2 * 16));
		}
	}
	return sum;
}

/* The whole wave: row `row` of w times x (K, f16). Every lane has the sum. */
template <int format>
DEVICE float row_dot(const weight_view *w, size_t row, const uint16_t *x)
{
	constexpr size_t size = format == WEIGHT_F32 ? 4 : 2;
	float sum = 0;
	int32_t lane = (int32_t)lane_index(), k = w->k;
	if constexpr (is_block(format)) {
		const uint8_t *q = (const uint8_t *)w->q + row * (size_t)w->pitch;
		for (int32_t i = lane * 8; i < k; i += WAVE * 8)
			sum = block_dot8<format>(q, i, x + i, sum);
	} else if (format < WEIGHT_INT4 && k % 8 == 0) {
		const char *p = (const char *)w->q + row * (size_t)w->pitch;
		for (int32_t i = lane * 8; i < k; i += WAVE * 8)
			sum = dot8<format>(p + (size_t)i * size, x + i, sum);
	} else {
		for (int32_t i = lane; i < k; i += WAVE)
			sum += weight_at<format>(w, row, i) * f16_to_f32(x[i]);
	}
	return wave_sum(sum);
}
