/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of the block formats of GGUF, and bytes of a block in pieces of eight weights
 * (dequant_blocks.h).
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/weights/weight_view.h"

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
