/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the block formats of GGUF on the device, eight weights at a time.
 * src/model/formats/quant_blocks.c describes the blocks. In each format, eight
 * neighbouring weights share scale and minimum, and take eight bytes of nibbles or of
 * 2-bit integers. So a lane takes eight, and its neighbour the next eight. After
 * unrolling, all indices are constants, which keeps arrays in registers. Q4_0, Q8_0,
 * TQ1_0 and MXFP4 blocks do not occur here: loading converts them (src/backend/hip/hip_repack.c).
 */
#pragma once
#include "kernels/weights/dequant_grids.h"

/* Replace indices by IQ4's values: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89
 * 113. */
DEVICE void iq4_values8(int32_t *q)
{
	UNROLL
	for (int i = 0; i < 8; i++) {
		uint64_t half = q[i] < 8 ? 0xF6EADDCFBFAD9881u : 0x7159453526190D01u;
		q[i] = signed8((uint32_t)(half >> q[i] % 8 * 8));
	}
}

/* Replace indices by NF4's values times 2^14: -16384 -11408 -8600 -6472 -4660 -3028 -1492
 * 0 1304 2636 4032 5536 7220 9216 11848 16384. */
DEVICE void nf4_values8(int32_t *q)
{
	UNROLL
	for (int i = 0; i < 8; i++) {
		uint64_t low = q[i] < 4 ? 0xE6B8DE68D370C000u : 0x0000FA2CF42CEDCCu;
		uint64_t high = q[i] < 12 ? 0x15A00FC00A4C0518u : 0x40002E4824001C34u;
		uint64_t four = q[i] < 8 ? low : high;
		q[i] = (int32_t)((uint32_t)(four >> q[i] % 4 * 16) << 16) >> 16;
	}
}

/* Decode eight weights: number j of a block of 32. */
template <int format> DEVICE void split32(const uint8_t *p, int32_t j, eight *e)
{
	int32_t at = j % 2 * 8, shift = j / 2 * 4;
	constexpr bool has_min = format == WEIGHT_Q4_1 || format == WEIGHT_Q5_1;
	constexpr bool has_fifth = format == WEIGHT_Q5_0 || format == WEIGHT_Q5_1;
	constexpr int32_t head = has_min ? 4 : 2, numbers = head + (has_fifth ? 4 : 0);
	e->scale = half_of(p);
	e->min = has_min ? -half_of(p + 2) : 0;
	take8(p + numbers + at, shift, 15, e->q);
	if constexpr (has_fifth) {
		uint32_t fifth = bytes4(p + head) >> 8 * j;
		UNROLL
		for (int i = 0; i < 8; i++)
			e->q[i] += (int32_t)(fifth >> i & 1) * 16;
	}
	if constexpr (format == WEIGHT_Q5_0)
		less8(16, e->q);
	else if constexpr (format == WEIGHT_IQ4_NL)
		iq4_values8(e->q);
	else if constexpr (format == WEIGHT_NF4) {
		nf4_values8(e->q);
		e->scale *= 0x1p-14f;
	}
}

/* Scale and minimum number `sub` of eight, six bits each (Q4_K, Q5_K). */
DEVICE void scales_k(const uint8_t *p, int32_t sub, eight *e)
{
	const uint8_t *s = p + 4;
	uint32_t scale, min;
	uint32_t upper = bytes1(s + sub + 4);
	if (sub < 4) {
		scale = bytes1(s + sub) & 63;
		min = upper & 63;
	} else {
		scale = (upper & 15) | (bytes1(s + sub - 4) >> 6) << 4;
		min = upper >> 4 | (bytes1(s + sub) >> 6) << 4;
	}
	e->scale = half_of(p) * (float)scale;
	e->min = half_of(p + 2) * (float)min;
}

DEVICE int32_t scale_q3_k(const uint8_t *s, int32_t sub)
{
	uint32_t low = bytes1(s + sub % 8) >> sub / 8 * 4 & 15;
	uint32_t high = bytes1(s + 8 + sub % 4) >> sub / 4 * 2 & 3;
	return (int32_t)(low | high << 4) - 32;
}

/* Decode eight weights: number j of a block of 256. */
template <int format> DEVICE void split256(const uint8_t *p, int32_t j, eight *e)
{
	int32_t i = 8 * j, crumb = i / 128 * 32 + i % 32, two = i / 32 % 4 * 2;
	int32_t nibble = i / 64 * 32 + i % 32, four = i / 32 % 2 * 4;
	e->min = 0;
	if constexpr (format == WEIGHT_Q2_K) {
		e->scale = half_of(p + 80) * (float)(bytes1(p + j / 2) & 15);
		e->min = half_of(p + 82) * (float)(bytes1(p + j / 2) >> 4);
		take8(p + 16 + crumb, two, 3, e->q);
	} else if constexpr (format == WEIGHT_Q3_K) {
		e->scale = half_of(p + 108) * (float)scale_q3_k(p + 96, j / 2);
		take8(p + 32 + crumb, two, 3, e->q);
		add8(p + i % 32, i / 32, 4, e->q);
		less8(4, e->q);
	} else if constexpr (format == WEIGHT_Q4_K) {
		scales_k(p, j / 4, e);
		take8(p + 16 + nibble, four, 15, e->q);
	} else if constexpr (format == WEIGHT_Q5_K) {
		scales_k(p, j / 4, e);
		take8(p + 48 + nibble, four, 15, e->q);
		add8(p + 16 + i % 32, i / 32, 16, e->q);
	} else if constexpr (format == WEIGHT_Q6_K) {
		int32_t high[8];
		e->scale = half_of(p + 208) * (float)signed8(bytes1(p + 192 + j / 2));
		take8(p + i / 128 * 64 + i % 64, i / 64 % 2 * 4, 15, e->q);
		take8(p + 128 + crumb, two, 3, high);
		UNROLL
		for (int b = 0; b < 8; b++)
			e->q[b] += high[b] * 16 - 32;
	} else if constexpr (format == WEIGHT_IQ4_XS) {
		int32_t sub = j / 4;
		uint32_t s = (bytes1(p + 4 + sub / 2) >> sub % 2 * 4 & 15) |
			     (bytes2(p + 2) >> 2 * sub & 3) << 4;
		e->scale = half_of(p) * (float)((int32_t)s - 32);
		take8(p + 8 + 16 * sub + j % 2 * 8, j % 4 / 2 * 4, 15, e->q);
		iq4_values8(e->q);
	} else if constexpr (format == WEIGHT_TQ2_0) {
		e->scale = half_of(p + 64);
		take8(p + crumb, two, 3, e->q);
		less8(1, e->q);
	} else if constexpr (format == WEIGHT_IQ1_S || format == WEIGHT_IQ1_M) {
		split_iq1<format>(p, j, e);
	} else if constexpr (format == WEIGHT_IQ3_XXS || format == WEIGHT_IQ3_S) {
		split_iq3<format>(p, j, e);
	} else if constexpr (format == WEIGHT_IQ2_XS || format == WEIGHT_IQ2_S) {
		split_iq2<format>(p, j, e);
	} else {
		split_iq2_xxs(p, j, e);
	}
}

/* Decode weights i .. i+7 of a row; i is a multiple of 8. */
template <int format> DEVICE void block_split8(const uint8_t *row, int32_t i, eight *e)
{
	constexpr int32_t n = block_weights(format);
	const uint8_t *p = row + (size_t)(i / n) * (size_t)block_bytes(format);
	if constexpr (n == 32)
		split32<format>(p, i % n / 8, e);
	else
		split256<format>(p, i % n / 8, e);
}

/* Decode weight i alone. */
template <int format> DEVICE float block_at(const uint8_t *row, int32_t i)
{
	eight e;
	block_split8<format>(row, i / 8 * 8, &e);
	int32_t q = 0;
	UNROLL
	for (int b = 0; b < 8; b++)
		q = i % 8 == b ? e.q[b] : q;
	return (float)q * e.scale - e.min;
}

/* sum + weights i .. i+7 times x (f16, 16-byte aligned). */
template <int format>
DEVICE float block_dot8(const uint8_t *row, int32_t i, const uint16_t *x, float sum)
{
	eight e;
	block_split8<format>(row, i, &e);
	u32x4 xs = *(const u32x4 *)x;
	UNROLL
	for (int b = 0; b < 8; b++)
		sum += ((float)e.q[b] * e.scale - e.min) *
		       f16_to_f32((uint16_t)(xs[b / 2] >> b % 2 * 16));
	return sum;
}
