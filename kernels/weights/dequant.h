/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes weights on the device, one element or one row at a time, for any shape. Kernels
 * that are not a format's fast path use it. model/formats/blocks.h describes each
 * format's layout.
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

/* Moved into a half's fields, the bits of an e4m3 mean 2^-8 of its value, also for
 * subnormals. NaN is all ones: adding one carries into the highest exponent bit of the
 * half. */
DEVICE float e4m3_to_f32(uint8_t b)
{
	uint32_t h = (b & 0x7Fu) << 7;
	h |= (h + 0x80) & 0x4000;
	return f16_to_f32((uint16_t)((b & 0x80u) << 8 | h)) * 256;
}

/* e8m0 to float; 255 is NaN. */
DEVICE float e8m0_to_f32(uint8_t b)
{
	uint32_t bits = b ? (uint32_t)b << 23 : 0x00400000u;
	return bits_cast<float>(b == 255 ? 0x7FC00000u : bits);
}

DEVICE float e2m1_to_f32(uint32_t nibble)
{
	return f16_to_f32((uint16_t)((nibble & 8) << 12 | (nibble & 7) << 9)) * 16384;
}

/* Four small floats, a byte each, as halves in two registers. An e4m3 becomes 2^-8 of its
 * value; an e2m1 (the low nibble of the byte) becomes 2^-14 of its value. */
template <int format> DEVICE void small_halves(uint32_t q, uint32_t *out)
{
	if constexpr (format == WEIGHT_FP8) {
		/* from s eeee mmm (a byte) to s 0 eeee mmm 0000000 (a half) */
		uint32_t pair[2] = {permute_bytes<0x1404>(q, 0), permute_bytes<0x3424>(q, 0)};
		UNROLL
		for (int i = 0; i < 2; i++) {
			uint32_t h = pair[i] >> 1 & 0x3F803F80u;
			h |= (h + 0x00800080u) & 0x40004000u; /* keeps NaN */
			out[i] = (pair[i] & 0x80008000u) | h;
		}
	} else {
		/* from 0000 s eem in a byte to the high byte s 0000ee m0 of a half */
		uint32_t high = (q & 0x08080808u) << 4 | (q & 0x07070707u) << 1;
		out[0] = permute_bytes<0x1404>(high, 0);
		out[1] = permute_bytes<0x3424>(high, 0);
	}
}

/* Element i of formats with one byte or a small float per weight. */
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

/* Sixteen bytes of numbers; IS_CACHED: other workgroups read them, too. */
template <bool IS_CACHED> DEVICE u32x4 unit_load16(const void *p)
{
	return IS_CACHED ? load_global<u32x4>(p) : load_nt<u32x4>(p);
}

template <bool IS_CACHED> DEVICE u32x4 unit_load_even(const void *p)
{
	return IS_CACHED ? load_even(p) : load_nt_even(p);
}

/* Eight elements of f32, f16 or bf16, 16-byte aligned. */
template <int format> struct dot8_piece {
	u32x4 v[format == WEIGHT_F32 ? 2 : 1];
};

template <int format> DEVICE dot8_piece<format> dot8_load(const void *p)
{
	dot8_piece<format> out;
	out.v[0] = load_global<u32x4>(p);
	if constexpr (format == WEIGHT_F32)
		out.v[1] = load_global<u32x4>((const u32x4 *)p + 1);
	return out;
}

/* Element i of a piece; i is a constant. */
template <int format> DEVICE float dot8_at(const dot8_piece<format> &p, int i)
{
	if constexpr (format == WEIGHT_F32) {
		return bits_cast<float>((uint32_t)p.v[i / 4][i % 4]);
	} else {
		uint16_t h = (uint16_t)(p.v[0][i / 2] >> i % 2 * 16);
		return format == WEIGHT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
	}
}

/* sum + a piece times x (f16), 16-byte aligned. */
template <int format>
DEVICE float dot8_use(const dot8_piece<format> &p, const uint16_t *x, float sum)
{
	u32x4 xs = *(const u32x4 *)x;
	UNROLL
	for (int i = 0; i < 8; i++)
		sum += dot8_at<format>(p, i) * f16_to_f32((uint16_t)(xs[i / 2] >> i % 2 * 16));
	return sum;
}

template <int format> DEVICE float dot8(const void *p, const uint16_t *x, float sum)
{
	return dot8_use<format>(dot8_load<format>(p), x, sum);
}

/* Row `row` of w times x (K, f16), by the whole wave. Every lane gets the sum. */
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
