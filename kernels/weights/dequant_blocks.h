/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the block formats of GGUF on the device, eight weights at a time.
 * src/model/formats/quant_blocks.c describes the blocks. In each format, eight
 * neighbouring weights share scale and minimum, and take eight bytes of nibbles or of
 * 2-bit integers. So a lane takes eight, and its neighbour the next eight. After
 * unrolling, all indices are constants, which keeps arrays in registers. Q4_0, Q8_0 and
 * MXFP4 blocks do not occur here: loading converts them (src/backend/hip/hip_repack.c).
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/weights/weight_view.h"

#include "src/model/formats/iq2xxs_grid.h"

/* Columns of quant.def, one row for each format. */
struct format_row {
	int bits, block, bytes; /* block 0: numbers and scales are separate arrays */
	bool has_min;
};
#define FORMAT_PLAIN false
#define FORMAT_OWN false
#define FORMAT_REPACKED false
#define FORMAT_UNITS false
#define FORMAT_UNITS_MIN true
constexpr format_row format_rows[] = {
#define QUANT(ident, name, bits, ...) {bits, 0, 0, false},
#define QUANT_BLOCK(ident, name, bits, block, bytes, gguf, form, scaling, units) \
	{bits, block, bytes, FORMAT_##units},
#include "src/model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
};
#undef FORMAT_PLAIN
#undef FORMAT_OWN
#undef FORMAT_REPACKED
#undef FORMAT_UNITS
#undef FORMAT_UNITS_MIN

constexpr bool is_block(int format)
{
	return format_rows[format].block != 0;
}

constexpr int32_t block_weights(int format)
{
	return format_rows[format].block;
}

constexpr int32_t block_bytes(int format)
{
	return format_rows[format].bytes;
}

struct eight {
	int32_t q[8];
	float scale, min; /* common to all eight: weight = q * scale - min */
};

DEVICE uint32_t bytes1(const uint8_t *p)
{
	return load_global<uint8_t>(p);
}

/* Loads two bytes; all parts of blocks have an even number of bytes. */
DEVICE uint32_t bytes2(const uint8_t *p)
{
	return load_global<uint16_t>(p);
}

DEVICE uint32_t bytes4(const uint8_t *p)
{
	return bytes2(p) | bytes2(p + 2) << 16;
}

/* The low byte as a signed integer. */
DEVICE int32_t signed8(uint32_t b)
{
	return (int32_t)((b & 255) ^ 128) - 128;
}

DEVICE float half_of(const uint8_t *p)
{
	return f16_to_f32((uint16_t)bytes2(p));
}

/* From each of eight bytes, extract the bits of `mask` at `shift`. */
DEVICE void take8(const uint8_t *p, int32_t shift, uint32_t mask, int32_t *q)
{
	uint32_t word[2] = {bytes4(p), bytes4(p + 4)};
	UNROLL
	for (int i = 0; i < 8; i++)
		q[i] = (int32_t)(word[i / 4] >> (i % 4 * 8 + shift) & mask);
}

/* Add `value` to q[i] if bit `shift` of byte i is set. */
DEVICE void add8(const uint8_t *p, int32_t shift, int32_t value, int32_t *q)
{
	int32_t bit[8];
	take8(p, shift, 1, bit);
	UNROLL
	for (int i = 0; i < 8; i++)
		q[i] += bit[i] * value;
}

DEVICE void less8(int32_t n, int32_t *q)
{
	UNROLL
	for (int i = 0; i < 8; i++)
		q[i] -= n;
}

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

DEVICE void split_iq2_xxs(const uint8_t *p, int32_t j, eight *e)
{
	const uint8_t *group = p + 2 + j / 4 * 8;
	uint32_t word = bytes4(group + 4), signs = word >> j % 4 * 7 & 127;
	uint32_t odd = signs ^ signs >> 4;
	odd ^= odd >> 2;
	signs |= ((odd ^ odd >> 1) & 1) << 7;
	uint32_t point = iq2xxs_grid[bytes1(group + j % 4)];
	e->scale = half_of(p) * (0.5f + (float)(word >> 28)) * 0.25f;
	UNROLL
	for (int i = 0; i < 8; i++) {
		int32_t v = (int32_t)(0x2B1908u >> (point >> i * 2 & 3) * 8 & 255);
		e->q[i] = signs >> i & 1 ? -v : v;
	}
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
