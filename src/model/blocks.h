/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats: element types of tensors, the formats that weights are kept
 * in, and how their bits lie in memory. What kernels need to know of a model.
 * Thread: any.
 *
 * All multi-byte values are little-endian, as in the file; the host must be
 * too. Every pointer is aligned to its element (tensors_open sees to it).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are used in place");

enum dtype {
	DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_U8, DTYPE_I16, DTYPE_I32,
	DTYPE_I64, DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_BOOL, DTYPE_F64, DTYPE_U16,
	DTYPE_U32, DTYPE_U64, DTYPE_F8_E8M0,
	DTYPE_COUNT
};
size_t dtype_bytes(enum dtype t);
const char *dtype_name(enum dtype t); /* "BF16" */
/* The type spelled so in a safetensors header, or DTYPE_COUNT. */
enum dtype dtype_find(const char *name);

enum quant {
#define QUANT(ident, name, bits) QUANT_##ident,
#include "model/quant.def"
#undef QUANT
	QUANT_COUNT
};
const char *quant_name(enum quant q); /* "int4" */
int quant_bits(enum quant q);         /* of one weight, without scales */

/* One linear layer's weight W (N, K), y = W x, in its checkpoint format. Views
 * into the mapped file: nothing is owned, nothing copied.
 *   INT4: q is (N, K/8) uint32, nibble i of word j = element 8j+i, value
 *         nibble - zero; zero is 8 (zero_points NULL) or per group.
 *         scales (N, K/group) of scale_type; group K means one per row.
 *         zero_points: (ceil(N/8), K/group) uint32 packed along N: nibble n%8 of
 *         word (n/8, g) belongs to row n (compressed-tensors).
 *         K and group are multiples of 8, group divides K.
 *   F32/F16/BF16: q is (N, K).  */
struct weight {
	enum quant quant;
	int32_t n, k, group;
	const void *q;
	const void *scales;
	enum dtype scale_type; /* F32, F16 or BF16 */
	const void *zero_points;
	const char *name; /* tensor name, for messages */
};

/* Decode rows [n0, n1) of w to float32 (n1-n0, K): the definition of the
 * format. */
void weight_decode(const struct weight *w, int32_t n0, int32_t n1, float *out);
size_t weight_bytes(const struct weight *w); /* of q, scales and zero points */

static inline float blocks_bf16(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* IEEE binary16, subnormals, infinities and NaN included. */
static inline float blocks_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7FFF, bits;
	float f;
	if (mag < 0x0400) { /* zero or subnormal: mag * 2^-24, exact in float */
		f = (float)mag * 0x1p-24f;
		memcpy(&bits, &f, sizeof bits);
	} else if (mag < 0x7C00) {
		bits = (mag << 13) + ((127u - 15u) << 23);
	} else {
		bits = 0x7F800000u | mag << 13;
	}
	bits |= sign;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* Element i of an array of F32, F16 or BF16. */
static inline float blocks_float(const void *p, enum dtype t, size_t i)
{
	if (t == DTYPE_F32)
		return ((const float *)p)[i];
	uint16_t h = ((const uint16_t *)p)[i];
	return t == DTYPE_F16 ? blocks_f16(h) : blocks_bf16(h);
}

/* Nibble i of packed 32-bit words, lowest bits first. */
static inline int blocks_nibble(const uint32_t *words, size_t i)
{
	return (int)(words[i / 8] >> i % 8 * 4 & 15);
}
