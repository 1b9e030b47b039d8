/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of weights and their layout in memory. Kernels read a model's weights
 * through this header. Thread: any.
 *
 * Multi-byte values are little-endian, as in the file, so the host must be little-endian
 * too. Every pointer is aligned to its element type (tensors_open makes sure of it).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "model/dtype.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are used in place");

struct weight_source; /* quant_made.c */

/* One linear layer's weight W (N, K), y = W x, in the format of its checkpoint. All
 * pointers are views into the mapped file; nothing is owned or copied. G = ceil(K/group)
 * is the number of groups in a row. Unless said otherwise, group divides K, scales are
 * (N, G) of scale_type, and zero points are stored as in the file.
 *   F32/F16/BF16: q is (N, K).
 *   INT4: q is (N, K/8) uint32. Nibble i of word j is element 8j+i; its value is
 *         nibble - zero. zero is 8 if zero_points is NULL, else one value per group.
 *         zero_points: (ceil(N/8), G) uint32, packed along N: nibble n%8 of word
 *         (n/8, g) belongs to row n (compressed-tensors).
 *         K and group are multiples of 8. group_of: as for GPTQ.
 *   INT8: like INT4 with bytes: q (N, K), value byte - zero; zero is 128, or byte n%4
 *         of zero_points (ceil(N/4), G).
 *   AWQ4: q is (K, N/8) uint32: row n is nibble blocks_awq_order(n%8) of word n/8.
 *         scales (G, N); zero_points (G, N/8), packed in q's order. N is a multiple of 8.
 *   GPTQ4, GPTQ8: q is (K/p, N) uint32 of p = 8 or 4 integers. Element k is integer
 *         k%p of word k/p, counted from the lowest bits. scales (G, N).
 *         zero_points (G, N/p): row n is integer n%p of word n/p. Decoding adds
 *         zero_step to it, modulo 2^4 or 2^8.
 *         group_of: the group of each input (K), or NULL for k / group.
 *         N and K are multiples of p.
 *   NVFP4: q is (N, K/2) bytes of two e2m1 numbers, the even element in the low nibble.
 *         value: e2m1 * (scale * global_scale). scales are e4m3, group is 16.
 *         NVFP4_BLOCK: q is (N, K/64) blocks, which have the scales in them.
 *   FP8:  q is (N, K) e4m3. scales are (ceil(N/group_n), G), one for group_n rows by
 *         group columns; the last block of rows or columns may be smaller.
 *   MXFP4: like NVFP4 with group 32, scales e8m0, and no global scale.
 *   Block formats of GGUF (Q4_0 and all after it): q is (N, K/block) blocks, as
 *         described in quant_blocks.c; K is a multiple of the block.
 *
 * In F32/F16/BF16, MXFP4 and the block formats, W may be a part of a tensor that holds
 * several weights. Then row n of W is row n * row_step of q and of scales. If k_step is
 * set (F32/F16/BF16 only), element (n, k) is element k * k_step + n * row_step of q. Code
 * that reads memory in order must call weight_is_dense first. */
struct weight {
	enum quant quant;
	int32_t n, k, group;
	const void *q;
	const void *scales;
	enum dtype scale_type; /* F32, F16 or BF16; NVFP4: F8_E4M3; MXFP4: F8_E8M0 */
	const void *zero_points;
	const char *name; /* tensor name, for messages */
	bool is_mapped;   /* q lies in a mapped file, so its pages may be given back to
			   * the system */
	bool is_table;    /* only looked up by row (embed_rows), never multiplied */
	bool keeps_rows;  /* the CPU backend reads the weight in the file's layout and makes no
			   * panels of it */
	bool is_expert;   /* one of a routed expert's matrices */
	const void *packed; /* a backend's additional packed copy, or NULL */
	int32_t group_n;         /* FP8: rows per scale */
	int32_t zero_step;       /* GPTQ: added to each zero point: 1 in the older format,
				  * 0 in the newer */
	const int32_t *group_of; /* GPTQ, INT4, INT8: group of each input (K), or NULL */
	double global_scale;     /* NVFP4: factor of all scales; NVFP4_BLOCK: 0 means 1 */
	const int32_t *order;    /* HIP, on the device: input of each column (K), where loading has
				  * sorted columns by group (hip_weight.c); or NULL: in order */
	const float *in_scale;   /* ModelOpt: factor of each input (K), decoding multiplies by it.
				  * HIP: on the device. NULL: all are 1 */
	int32_t row_step;        /* distance of W's rows in rows of q; 0 means 1 */
	int32_t k_step;          /* distance of a row's elements in q; 0 means 1. If set,
				  * row_step counts elements too */
	const struct weight_source *source; /* rounded when it was loaded (quant_made.c):
					     * decoding reads what is not rounded; or NULL */
	int32_t source_row; /* the row of source that is W's first */
	uint8_t fits;  /* HIP: which kernels read the weight (hip_weight.h) */
	int32_t pitch; /* bytes from one row of q to the next, where a backend pads its
		        * rows; 0: packed, as in every file */
};

static inline int weight_is_dense(const struct weight *w)
{
	return w->row_step <= 1 && w->k_step == 0;
}

/* Decode rows [n0, n1) of w to float32 (n1-n0, K). This code defines each format. */
void weight_decode(const struct weight *w, int32_t n0, int32_t n1, float *out);
/* Decode elements [k0, k1) of one row; k0 is even. */
void weight_decode_part(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			float *out);
/* Bytes of a row of q, for formats that store row after row. */
size_t weight_row_bytes(const struct weight *w);
/* Store the columns of a weight with scattered groups (group_of), sorted by group, in out
 * (K). False if groups have different sizes. */
bool weight_order(const struct weight *w, int32_t *out);
/* Bytes of q, scales, zero points and groups together. */
size_t weight_bytes(const struct weight *w);

static inline float blocks_bf16(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* IEEE binary16 to float, including subnormals, infinities and NaN. */
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

/* To the nearest float16; larger values become the largest finite one. */
static inline uint16_t blocks_to_f16(float x)
{
	uint32_t bits, sign;
	memcpy(&bits, &x, sizeof bits);
	sign = bits >> 16 & 0x8000;
	bits &= 0x7FFFFFFF;
	if (bits >= 0x477FF000) /* 65520 and above, infinity and NaN */
		return (uint16_t)(sign | 0x7BFF);
	if (bits < 0x38800000) { /* below 2^-14: in steps of 2^-24 */
		float magnitude;
		memcpy(&magnitude, &bits, sizeof magnitude);
		return (uint16_t)(sign | (uint32_t)__builtin_rintf(magnitude * 0x1p24f));
	}
	bits += 0xFFF + (bits >> 13 & 1); /* ties to even */
	return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

/* Element i of an array of F32, F16 or BF16. */
static inline float blocks_float(const void *p, enum dtype t, size_t i)
{
	if (t == DTYPE_F32)
		return ((const float *)p)[i];
	uint16_t h = ((const uint16_t *)p)[i];
	return t == DTYPE_F16 ? blocks_f16(h) : blocks_bf16(h);
}

/* Integer i of an array packed in 32-bit words, lowest bits first. bits: 4 or 8 per
 * integer. */
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

/* e4m3 to float: sign, 4 bits of exponent (bias 7), 3 of fraction. There is no infinity;
 * NaN is 0x7F. */
static inline float blocks_e4m3(uint8_t b)
{
	if ((b & 0x7F) == 0x7F)
		return blocks_bf16(0x7FC0);
	/* Moved into a float's fields, the bits mean a value 2^120 too small (bias 127 -
	 * 7), also for subnormals. */
	uint32_t bits = (uint32_t)(b & 0x7F) << 20;
	float f;
	memcpy(&f, &bits, sizeof f);
	f *= 0x1p120f;
	return b & 0x80 ? -f : f;
}

/* The e4m3 byte that the scale of an NVFP4 block means. The sign bit is ignored, and the code
 * of NaN means 0. */
static inline uint8_t blocks_nvfp4_scale(uint8_t b)
{
	return (b & 0x7F) == 0x7F ? 0 : b & 0x7F;
}

/* e8m0 to float: a power of two, 2^-127 to 2^127; 255 is NaN. */
static inline float blocks_e8m0(uint8_t b)
{
	uint32_t bits = b == 255 ? 0x7FC00000u : b ? (uint32_t)b << 23 : 0x00400000u;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* One block of a block format, unpacked. Weight i is q[i] * scale[i / n_sub] - min[i /
 * n_sub] in float32, without intermediate rounding. The fast paths start from this form. */
struct block_parts {
	int n, n_sub; /* weights in the block; weights that share a scale, 16 or 32 */
	int8_t q[256] __attribute__((aligned(32)));
	int8_t low[32]; /* NF4: weight i is (256 q[i] + low[i]) scale[0] */
	float scale[16], min[16];
	/* The same scales as stored in the block: float16 d and m (0 if the format has no m).
	 * NVFP4: s are the e4m3 bytes. Blocks of 256 also have integers: scale[i] is d * s[i]
	 * and min[i] is m * least[i]. In IQ1 and IQ2 scale[i] is d * s[i] / 8. In IQ3_XXS it is
	 * d * s[i] / 4. */
	uint16_t d, m;
	int8_t s[16];
	uint8_t least[16];
};
/* IQ4_NL, IQ4_XS: the value of each 4-bit index. */
extern const int8_t blocks_iq4[16];
/* NF4: value i is (256 blocks_nf4[i] + blocks_nf4_low[i]) / 2^14. */
extern const int8_t blocks_nf4[16], blocks_nf4_low[16];
/* The factor of all scales of NVFP4 and NVFP4_BLOCK. */
static inline double blocks_factor(const struct weight *w)
{
	return w->global_scale != 0 ? w->global_scale : 1;
}
void blocks_split(enum quant q, const void *block, struct block_parts *out);

/* e2m1 to float: sign, 2 bits of exponent, 1 of fraction; 0 .5 1 1.5 2 3 4 6. */
static inline float blocks_e2m1(int nibble)
{
	static const float values[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6,
					 -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
	return values[nibble];
}

/* AWQ stores eight rows in the order 0 2 4 6 1 3 5 7. Returns the nibble that holds row
 * i. */
static inline int blocks_awq_order(int i)
{
	return i / 2 + i % 2 * 4;
}
