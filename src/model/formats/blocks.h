/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats: the formats that weights are kept in, and how their bits lie in
 * memory. What kernels need to know of a model.
 * Thread: any.
 *
 * All multi-byte values are little-endian, as in the file; the host must be
 * too. Every pointer is aligned to its element (tensors_open sees to it).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "model/dtype.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are used in place");

/* One linear layer's weight W (N, K), y = W x, in its checkpoint format. Views
 * into the mapped file: nothing is owned, nothing copied. G = ceil(K/group); where
 * not said otherwise group divides K, scales are (N, G) of scale_type, and zero
 * points stay as they are in the file.
 *   F32/F16/BF16: q is (N, K).
 *   INT4: q is (N, K/8) uint32, nibble i of word j = element 8j+i, value
 *         nibble - zero; zero is 8 (zero_points NULL) or per group.
 *         zero_points: (ceil(N/8), G) uint32 packed along N: nibble n%8 of
 *         word (n/8, g) belongs to row n (compressed-tensors).
 *         K and group are multiples of 8. group_of: as of GPTQ.
 *   INT8: the same with bytes: q (N, K), byte - zero, zero 128 or byte n%4 of
 *         zero_points (ceil(N/4), G).
 *   AWQ4: q is (K, N/8) uint32: row n is nibble blocks_awq_order(n%8) of word n/8.
 *         scales (G, N), zero_points (G, N/8) in the order of q. N multiple of 8.
 *   GPTQ4, GPTQ8: q is (K/p, N) uint32 of p = 8 or 4 integers, element k the k%p-th
 *         lowest of word k/p. scales (G, N); zero_points (G, N/p), row n the n%p-th
 *         lowest; zero_step is added to each, without a carry out of its bits.
 *         group_of: group of each input (K), NULL: k / group. N, K multiples of p.
 *   NVFP4: q is (N, K/2) bytes of two e2m1, the even element in the low nibble; value
 *         e2m1 * (scale * global_scale), scales e4m3, group 16.
 *   FP8:  q is (N, K) e4m3; scales (ceil(N/group_n), G) each for group_n rows; the
 *         last block of rows or columns may be smaller.
 *   MXFP4: as NVFP4 with group 32 and scales e8m0, without a global scale.
 *   Formats in blocks (Q4_0 and all after it, of GGUF): q is (N, K/block) blocks, as
 *         quant_blocks.c tells; K is a multiple of the block.
 * F32/F16/BF16, MXFP4 and blocks may also be a part of a tensor that holds several weights:
 * row n is row n * row_step of q and of scales, and with k_step the element (n, k) of
 * F32/F16/BF16 is element k * k_step + n * row_step of q. Code that reads memory in
 * order asks weight_is_dense first. */
struct weight {
	enum quant quant;
	int32_t n, k, group;
	const void *q;
	const void *scales;
	enum dtype scale_type; /* F32, F16 or BF16; NVFP4: F8_E4M3; MXFP4: F8_E8M0 */
	const void *zero_points;
	const char *name; /* tensor name, for messages */
	bool is_mapped;   /* q lies in a mapped file, so its pages may be given back */
	bool is_table;    /* read by rows only (embed_rows), never multiplied */
	bool keeps_rows;  /* read as it lies: the CPU makes no panels of it */
	const void *packed; /* a backend's own form of it beside this one, or NULL */
	int32_t group_n;         /* FP8 */
	int32_t zero_step;       /* GPTQ: 1 in the older format, 0 in the newer */
	const int32_t *group_of; /* GPTQ, INT4, INT8 */
	double global_scale;     /* NVFP4 */
	int32_t row_step;        /* 0: 1 */
	int32_t k_step;          /* 0: 1, and row_step counts rows of K */
	int32_t pitch; /* bytes from row to row of q, where a backend keeps them further
			* apart than they are long; 0: packed, as in every file */
};

static inline int weight_is_dense(const struct weight *w)
{
	return w->row_step <= 1 && w->k_step == 0;
}

/* Decode rows [n0, n1) of w to float32 (n1-n0, K): the definition of the
 * format. */
void weight_decode(const struct weight *w, int32_t n0, int32_t n1, float *out);
/* Elements [k0, k1) of a row; k0 is even. */
void weight_decode_part(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			float *out);
/* Of a row of q, where its rows are in order. */
size_t weight_row_bytes(const struct weight *w);
/* Of q, scales, zero points and groups. */
size_t weight_bytes(const struct weight *w);

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

/* Integer i of packed 32-bit words, lowest bits first; bits: 4 or 8 each. */
static inline int blocks_integer(const uint32_t *words, int bits, size_t i)
{
	size_t per_word = 32 / (size_t)bits;
	return (int)(words[i / per_word] >> i % per_word * (size_t)bits &
		     ((1u << bits) - 1));
}

static inline int blocks_nibble(const uint32_t *words, size_t i)
{
	return blocks_integer(words, 4, i);
}

/* Sign, 4 bits of exponent (bias 7), 3 of fraction; no infinity, NaN is 0x7F. */
static inline float blocks_e4m3(uint8_t b)
{
	if ((b & 0x7F) == 0x7F)
		return blocks_bf16(0x7FC0);
	/* In a float's place the exponent reads 2^120 too small, subnormals too. */
	uint32_t bits = (uint32_t)(b & 0x7F) << 20;
	float f;
	memcpy(&f, &bits, sizeof f);
	f *= 0x1p120f;
	return b & 0x80 ? -f : f;
}

/* A power of two, 2^-127 to 2^127; 255 is NaN. */
static inline float blocks_e8m0(uint8_t b)
{
	uint32_t bits = b == 255 ? 0x7FC00000u : b ? (uint32_t)b << 23 : 0x00400000u;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* A block of any format that has them, taken apart: weight i is
 * q[i] * scale[i / n_sub] - min[i / n_sub], in float32 without rounding between. What
 * fast paths start from. */
struct block_parts {
	int n, n_sub; /* weights; those that share a scale, 16 or 32 */
	int8_t q[256] __attribute__((aligned(32)));
	float scale[16], min[16];
	/* What the block has of that: float16 d and m (0 where it has none), and in blocks
	 * of 256 integers, so that scale[i] is d times s[i], min[i] m times least[i].
	 * IQ2_XXS: d times s[i] / 8. */
	uint16_t d, m;
	int8_t s[16];
	uint8_t least[16];
};
/* IQ4_NL, IQ4_XS: what an index stands for. */
extern const int8_t blocks_iq4[16];
void blocks_split(enum quant q, const void *block, struct block_parts *out);

/* Sign, 2 bits of exponent, 1 of fraction: 0 .5 1 1.5 2 3 4 6. */
static inline float blocks_e2m1(int nibble)
{
	static const float values[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6,
					 -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
	return values[nibble];
}

/* AWQ stores the rows 0 2 4 6 1 3 5 7 of eight: row i is which nibble of the word? */
static inline int blocks_awq_order(int i)
{
	return i / 2 + i % 2 * 4;
}
