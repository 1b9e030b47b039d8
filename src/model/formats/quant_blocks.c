/* SPDX-License-Identifier: Apache-2.0
 *
 * The block formats of GGUF (ggml): 32 to 256 weights together with their scales. d and m
 * are float16. A byte of two nibbles holds elements i and i + 16 of 32 weights; in the K
 * formats elements i and i + 32 of 64. Each row lists a block's fields in order, with
 * their sizes in bytes, and the value of a weight with integer q:
 *
 *   Q4_0     d, 16 of nibbles                          d (q - 8)
 *   Q4_1     d, m, 16 of nibbles                       d q + m
 *   Q5_0     d, 4 of fifth bits, 16 of nibbles         d (q - 16)
 *   Q5_1     d, m, 4 of fifth bits, 16 of nibbles      d q + m
 *   Q8_0     d, 32 integers                            d q
 *   IQ4_NL   d, 16 of nibbles, which are indices       d value[q]
 *   NF4      the same, with values of float16
 *   MXFP4    e8m0, 16 of nibbles of e2m1               2^(e - 127) e2m1
 *
 * Blocks of 64 and 128 weights. Those of NVFP4 have four parts of 16; a byte of two nibbles
 * holds elements i and i + 8 of a part:
 *
 *   NVFP4    4 of e4m3 without sign, 32 of nibbles of e2m1    s e2m1 times the factor of
 *            the tensor, which another tensor has (X.scale); s is 0 where e4m3 means NaN
 *   Q1_0     d, 16 of 1 bit                            d (2 q - 1)
 *   Q2_0     d, 16 of 2 bits                           d (q - 1)
 *
 * Blocks of 256 weights have 8 parts of 32 or 16 parts of 16. Each part has a scale s
 * and, in some formats, a minimum n:
 *
 *   Q2_K     16 of (n, s) in nibbles, 64 of 2 bits, d, m      d s q - m n
 *   Q3_K     32 of third bits, 64 of 2 bits, 12 of s, d       d (s - 32) (q - 4)
 *   Q4_K     d, m, 12 of s and n, 128 of nibbles              d s q - m n
 *   Q5_K     d, m, 12 of s and n, 32 of fifth bits, 128 of nibbles; as Q4_K
 *   Q6_K     128 of nibbles, 64 of 2 upper bits, 16 of s, d   d s (q - 32)
 *   IQ4_XS   d, 2 and 4 of s, 128 of nibbles, indices         d (s - 32) value[q]
 *   IQ2_XXS  d, then 8 groups of 8 bytes                      d (s + 1/2)/4 grid
 *   IQ2_XS   d, 32 of 9-bit index and 7 signs, 8 of s         d (s + 1/2)/4 grid
 *   IQ2_S    d, 32 of index, 32 of signs, 8 of upper bits, 8 of s    the same
 *   IQ3_XXS  d, 64 of index, 32 of signs and s                d (s + 1/2)/2 grid
 *   IQ3_S    d, 64 of index, 8 of ninth bits, 32 of signs, 4 of s    d (2 s + 1) grid
 *   IQ1_S    d, 32 of index, 16 of upper bits, s and sign     d (2 s + 1)(grid +- 1/8)
 *   IQ1_M    32 of index, 16 of upper bits and signs, 8 of s and d   the same
 *   TQ1_0    52 of 5 digits of base 3 (the last 4 of 4), d    d (q - 1)
 *   TQ2_0    64 of 2 bits, d                                  d (q - 1)
 *
 * A group of IQ2_XXS is four 8-bit indices into a grid of eight magnitudes, four 7-bit
 * sets of signs, and a 4-bit s. An eighth sign makes the number of minus signs even. The
 * words of IQ3_XXS that have signs and s are the same. A grid of IQ3 has four magnitudes.
 * The sign bit of IQ1 is the sign of the 1/8. IQ1_M has four bits of d in each two bytes of s.
 *
 * Source: the gguf package for Python (gguf/quants.py); tests/golden/make_blocks.py compares
 * with it. As in that package, d s, m n and the value are each rounded to float32.
 */
#include <assert.h>

#include "base/alloc.h"
#include "model/formats/iq1_grid.h"
#include "model/formats/iq2_grids.h"
#include "model/formats/iq2xxs_grid.h"
#include "model/formats/iq3_grids.h"
#include "model/formats/quant.h"

static uint16_t bits_at(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t word_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

/* --- blocks of 32 --------------------------------------------------------- */

/* 32 weights with one scale, and with one minimum unless m is NULL. */
static void one_scale(struct block_parts *o, const uint8_t *d, const uint8_t *m)
{
	o->n = o->n_sub = 32;
	o->d = bits_at(d);
	o->m = m ? bits_at(m) : 0;
	o->scale[0] = blocks_f16(o->d);
	o->min[0] = m ? -blocks_f16(o->m) : 0;
}

/* The 16 bytes at p hold q[0..15] in their low nibbles and q[16..31] in the high ones.
 * Each q is the nibble minus `less`. */
static void nibbles16(const uint8_t *p, int less, int8_t *q)
{
	for (int i = 0; i < 16; i++) {
		q[i] = (int8_t)((p[i] & 15) - less);
		q[i + 16] = (int8_t)((p[i] >> 4) - less);
	}
}

static void fifth_bits(uint32_t bits, int less, int8_t *q)
{
	for (int i = 0; i < 32; i++)
		q[i] = (int8_t)(q[i] + (int)(bits >> i & 1) * 16 - less);
}

static void split_q4_0(const uint8_t *p, struct block_parts *o)
{
	one_scale(o, p, NULL);
	nibbles16(p + 2, 8, o->q);
}

static void split_q4_1(const uint8_t *p, struct block_parts *o)
{
	one_scale(o, p, p + 2);
	nibbles16(p + 4, 0, o->q);
}

static void split_q5_0(const uint8_t *p, struct block_parts *o)
{
	one_scale(o, p, NULL);
	nibbles16(p + 6, 0, o->q);
	fifth_bits(word_at(p + 2), 16, o->q);
}

static void split_q5_1(const uint8_t *p, struct block_parts *o)
{
	one_scale(o, p, p + 2);
	nibbles16(p + 8, 0, o->q);
	fifth_bits(word_at(p + 4), 0, o->q);
}

static void split_q8_0(const uint8_t *p, struct block_parts *o)
{
	one_scale(o, p, NULL);
	memcpy(o->q, p + 2, 32);
}

const int8_t blocks_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
			       1, 13, 25, 38, 53, 69, 89, 113};

static void look_up(const int8_t values[16], int8_t *q, int n)
{
	for (int i = 0; i < n; i++)
		q[i] = values[q[i]];
}

static void split_iq4_nl(const uint8_t *p, struct block_parts *o)
{
	one_scale(o, p, NULL);
	nibbles16(p + 2, 0, o->q);
	look_up(blocks_iq4, o->q, 32);
}

/* The quantiles of the normal distribution that bitsandbytes calls nf4, rounded to
 * float16: multiples of 2^-14, as an upper and a lower part. */
const int8_t blocks_nf4[16] = {-64, -45, -34, -25, -18, -12, -6, 0,
			       5, 10, 16, 22, 28, 36, 46, 64};
const int8_t blocks_nf4_low[16] = {0, 112, 104, -72, -52, 44, 44, 0,
				   24, 76, -64, -96, 52, 0, 72, 0};

static void split_nf4(const uint8_t *p, struct block_parts *o)
{
	one_scale(o, p, NULL);
	o->scale[0] *= 0x1p-14f;
	nibbles16(p + 2, 0, o->q);
	memcpy(o->low, o->q, sizeof o->low);
	look_up(blocks_nf4, o->q, 32);
	look_up(blocks_nf4_low, o->low, 32);
}

static void split_mxfp4_block(const uint8_t *p, struct block_parts *o)
{
	static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12,
					 0, -1, -2, -3, -4, -6, -8, -12};
	/* p[0] is the scale's e8m0 exponent. Build the bits of half the scale, because
	 * `twice` holds doubled values. As in ggml, 255 does not mean NaN here. */
	uint32_t bits = p[0] < 2 ? 0x00200000u << p[0] : (uint32_t)(p[0] - 1) << 23;
	float half;
	memcpy(&half, &bits, sizeof half);
	*o = (struct block_parts){.n = 32, .n_sub = 32, .scale = {half}};
	nibbles16(p + 1, 0, o->q);
	look_up(twice, o->q, 32);
}

/* --- blocks of 64 and 128 ------------------------------------------------- */

static void split_nvfp4_block(const uint8_t *p, struct block_parts *o)
{
	static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12,
					 0, -1, -2, -3, -4, -6, -8, -12};
	*o = (struct block_parts){.n = 64, .n_sub = 16};
	for (int j = 0; j < 4; j++) {
		uint8_t s = blocks_nvfp4_scale(p[j]);
		o->scale[j] = blocks_e4m3(s) / 2;
		o->s[j] = (int8_t)s;
		for (int i = 0; i < 8; i++) {
			uint8_t two = p[4 + 8 * j + i];
			o->q[16 * j + i] = twice[two & 15];
			o->q[16 * j + i + 8] = twice[two >> 4];
		}
	}
}

/* Unpack n weights of 1 or 2 bits. One scale, d, is for all of them. */
static void few_bits(const uint8_t *p, int n, int bits, struct block_parts *o)
{
	*o = (struct block_parts){.n = n, .n_sub = 32, .d = bits_at(p)};
	for (int j = 0; j < n / 32; j++)
		o->scale[j] = blocks_f16(o->d);
	for (int i = 0; i < n; i++)
		o->q[i] = (int8_t)(p[2 + i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1));
}

static void split_q1_0(const uint8_t *p, struct block_parts *o)
{
	few_bits(p, 128, 1, o);
	for (int i = 0; i < 128; i++)
		o->q[i] = (int8_t)(2 * o->q[i] - 1);
}

static void split_q2_0(const uint8_t *p, struct block_parts *o)
{
	few_bits(p, 64, 2, o);
	for (int i = 0; i < 64; i++)
		o->q[i]--;
}

/* --- blocks of 256 -------------------------------------------------------- */

static void parts_of(struct block_parts *o, int n_sub, const uint8_t *d,
		     const uint8_t *m)
{
	o->n = 256;
	o->n_sub = n_sub;
	o->d = bits_at(d);
	o->m = m ? bits_at(m) : 0;
	memset(o->s, 0, sizeof o->s);
	memset(o->least, 0, sizeof o->least);
}

/* Compute scale and min from s and least; s counts in units of `unit`. */
static void scales_of(struct block_parts *o, float unit)
{
	float d = blocks_f16(o->d), m = blocks_f16(o->m);
	for (int j = 0; j < (int)sizeof o->s; j++) { /* entries past the last part are 0 */
		o->scale[j] = d * ((float)o->s[j] * unit);
		o->min[j] = m * (float)o->least[j];
	}
}

/* Extract the same bits of 32 bytes. Loading a file spends its time in such loops, and
 * compilers vectorize them. */
static inline void take_bits(const uint8_t *p, int shift, int mask, int8_t *q)
{
	for (int i = 0; i < 32; i++)
		q[i] = (int8_t)(p[i] >> shift & mask);
}

/* 2-bit integers: each 32 bytes hold four runs of 32, from the lowest bits up. */
static void crumbs(const uint8_t *p, int8_t *q)
{
	for (int i = 0; i < 8; i++)
		take_bits(p + i / 4 * 32, i % 4 * 2, 3, q + 32 * i);
}

/* 4-bit integers: each 32 bytes hold two runs of 32, low nibbles first. */
static void nibbles32(const uint8_t *p, int8_t *q)
{
	for (int i = 0; i < 8; i++)
		take_bits(p + i / 2 * 32, i % 2 * 4, 15, q + 32 * i);
}

static void split_q2_k(const uint8_t *p, struct block_parts *o)
{
	parts_of(o, 16, p + 80, p + 82);
	for (int j = 0; j < 16; j++) {
		o->s[j] = p[j] & 15;
		o->least[j] = p[j] >> 4;
	}
	scales_of(o, 1);
	crumbs(p + 16, o->q);
}

static void split_q3_k(const uint8_t *p, struct block_parts *o)
{
	const uint8_t *s = p + 96;
	parts_of(o, 16, p + 108, NULL);
	for (int j = 0; j < 16; j++) {
		int low = s[j % 8] >> j / 8 * 4 & 15;
		int high = s[8 + j % 4] >> j / 4 * 2 & 3;
		o->s[j] = (int8_t)((low | high << 4) - 32);
	}
	scales_of(o, 1);
	crumbs(p + 32, o->q);
	for (int run = 0; run < 8; run++) { /* subtract 4 where the third bit is 0 */
		int8_t *q = o->q + 32 * run;
		for (int i = 0; i < 32; i++)
			q[i] = (int8_t)(q[i] + (p[i] >> run & 1) * 4 - 4);
	}
}

/* Six-bit scales and minima of Q4_K and Q5_K. The first four of each are the low six bits
 * of a byte. The last four have their low bits in nibbles of further bytes; their upper
 * two bits are the top bits of the first bytes. */
static void scales_k(const uint8_t *p, struct block_parts *o)
{
	const uint8_t *s = p + 4;
	parts_of(o, 32, p, p + 2);
	for (int j = 0; j < 4; j++) {
		int upper = (s[8 + j] & 15) | (s[j] >> 6) << 4;
		int upper_min = s[8 + j] >> 4 | (s[4 + j] >> 6) << 4;
		o->s[j] = s[j] & 63;
		o->least[j] = s[4 + j] & 63;
		o->s[4 + j] = (int8_t)upper;
		o->least[4 + j] = (uint8_t)upper_min;
	}
	scales_of(o, 1);
}

static void split_q4_k(const uint8_t *p, struct block_parts *o)
{
	scales_k(p, o);
	nibbles32(p + 16, o->q);
}

static void split_q5_k(const uint8_t *p, struct block_parts *o)
{
	scales_k(p, o);
	nibbles32(p + 48, o->q);
	for (int run = 0; run < 8; run++) {
		int8_t *q = o->q + 32 * run;
		for (int i = 0; i < 32; i++)
			q[i] = (int8_t)(q[i] + (p[16 + i] >> run & 1) * 16);
	}
}

static void split_q6_k(const uint8_t *p, struct block_parts *o)
{
	parts_of(o, 16, p + 208, NULL);
	memcpy(o->s, p + 192, 16);
	scales_of(o, 1);
	for (int run = 0; run < 8; run++) {
		const uint8_t *low = p + run / 4 * 64 + run % 2 * 32;
		const uint8_t *high = p + 128 + run / 4 * 32;
		int low_at = run / 2 % 2 * 4, high_at = run % 4 * 2;
		int8_t *q = o->q + 32 * run;
		for (int i = 0; i < 32; i++)
			q[i] = (int8_t)((low[i] >> low_at & 15) +
					(high[i] >> high_at & 3) * 16 - 32);
	}
}

static void split_iq4_xs(const uint8_t *p, struct block_parts *o)
{
	int upper = p[2] | p[3] << 8;
	parts_of(o, 32, p, NULL);
	for (int j = 0; j < 8; j++) {
		int s = (p[4 + j / 2] >> j % 2 * 4 & 15) | (upper >> 2 * j & 3) << 4;
		o->s[j] = (int8_t)(s - 32);
		nibbles16(p + 8 + 16 * j, 0, o->q + 32 * j);
	}
	scales_of(o, 1);
	look_up(blocks_iq4, o->q, 256);
}

static void split_iq2_xxs(const uint8_t *p, struct block_parts *o)
{
	static const int8_t magnitude[4] = {8, 25, 43, 0};
	parts_of(o, 32, p, NULL);
	for (int j = 0; j < 8; j++) {
		const uint8_t *group = p + 2 + 8 * j;
		uint32_t signs = word_at(group + 4);
		o->s[j] = (int8_t)(2 * (signs >> 28) + 1);
		for (int i = 0; i < 32; i++) {
			uint32_t s = signs >> i / 8 * 7 & 127;
			s |= (uint32_t)__builtin_parity(s) << 7;
			int v = magnitude[iq2xxs_grid[group[i / 8]] >> i % 8 * 2 & 3];
			o->q[32 * j + i] = (int8_t)(s >> i % 8 & 1 ? -v : v);
		}
	}
	scales_of(o, 0.125f);
}

/* --- grids --- */

/* Add the eighth sign to seven: it makes the number of minus signs even. */
static uint32_t even_signs(uint32_t seven)
{
	seven &= 127;
	return seven | (uint32_t)__builtin_parity(seven) << 7;
}

/* A point of n magnitudes, `bits` bits each, with the sign of each. */
static void put_point(uint32_t point, int bits, const int8_t *magnitude, uint32_t signs,
		      int n, int8_t *q)
{
	for (int i = 0; i < n; i++) {
		int v = magnitude[point >> i * bits & ((1u << bits) - 1)];
		q[i] = (int8_t)(signs >> i & 1 ? -v : v);
	}
}

static const int8_t iq2_magnitude[4] = {8, 25, 43, 0};

/* 16 scales 2 s + 1; p: s in nibbles, low ones first. */
static void odd_scales(const uint8_t *p, struct block_parts *o)
{
	for (int i = 0; i < 256 / o->n_sub; i++)
		o->s[i] = (int8_t)(2 * (p[i / 2] >> i % 2 * 4 & 15) + 1);
}

static void split_iq2_xs(const uint8_t *p, struct block_parts *o)
{
	parts_of(o, 16, p, NULL);
	odd_scales(p + 66, o);
	for (int j = 0; j < 32; j++) {
		uint32_t v = bits_at(p + 2 + 2 * j);
		put_point(iq2xs_grid[v & 511], 2, iq2_magnitude, even_signs(v >> 9), 8,
			  o->q + 8 * j);
	}
	scales_of(o, 0.125f);
}

static void split_iq2_s(const uint8_t *p, struct block_parts *o)
{
	parts_of(o, 16, p, NULL);
	odd_scales(p + 74, o);
	for (int j = 0; j < 32; j++) {
		uint32_t upper = p[66 + j / 4] >> j % 4 * 2 & 3;
		put_point(iq2s_grid[p[2 + j] | upper << 8], 2, iq2_magnitude, p[34 + j], 8,
			  o->q + 8 * j);
	}
	scales_of(o, 0.125f);
}

static void split_iq3_xxs(const uint8_t *p, struct block_parts *o)
{
	static const int8_t magnitude[8] = {4, 12, 20, 28, 36, 44, 52, 62};
	parts_of(o, 32, p, NULL);
	for (int j = 0; j < 64; j++) {
		uint32_t word = word_at(p + 66 + j / 8 * 4);
		uint32_t signs = even_signs(word >> j / 2 % 4 * 7) >> j % 2 * 4;
		o->s[j / 8] = (int8_t)(2 * (word >> 28) + 1);
		put_point(iq3xxs_grid[p[2 + j]], 3, magnitude, signs, 4, o->q + 4 * j);
	}
	scales_of(o, 0.25f);
}

static void split_iq3_s(const uint8_t *p, struct block_parts *o)
{
	static const int8_t magnitude[8] = {1, 3, 5, 7, 9, 11, 13, 15};
	parts_of(o, 32, p, NULL);
	odd_scales(p + 106, o);
	for (int j = 0; j < 64; j++) {
		uint32_t ninth = p[66 + j / 8] >> j % 8 & 1;
		put_point(iq3s_grid[p[2 + j] | ninth << 8], 3, magnitude,
			  (uint32_t)p[74 + j / 2] >> j % 2 * 4, 4, o->q + 4 * j);
	}
	scales_of(o, 1);
}

/* Eight weights of IQ1, counted in eighths: the point's numbers, and 1/8 more or less. */
static void put_iq1(uint32_t index, bool is_less, int8_t *q)
{
	for (int i = 0; i < 8; i++)
		q[i] = (int8_t)(8 * (iq1_grid[index] >> i * 2 & 3) - (is_less ? 9 : 7));
}

static void split_iq1_s(const uint8_t *p, struct block_parts *o)
{
	parts_of(o, 16, p, NULL);
	for (int j = 0; j < 32; j++) {
		uint32_t v = bits_at(p + 34 + j / 4 * 2);
		o->s[j / 2] = (int8_t)(2 * (v >> 12 & 7) + 1);
		put_iq1(p[2 + j] | (v >> j % 4 * 3 & 7) << 8, v >> 15, o->q + 8 * j);
	}
	scales_of(o, 0.125f);
}

static void split_iq1_m(const uint8_t *p, struct block_parts *o)
{
	const uint8_t *s = p + 48;
	int d = s[1] >> 4 | (s[3] & 0xF0) | (s[5] & 0xF0) << 4 | (s[7] & 0xF0) << 8;
	parts_of(o, 16, (uint8_t[]){(uint8_t)d, (uint8_t)(d >> 8)}, NULL);
	for (int j = 0; j < 32; j++) {
		uint32_t upper = p[32 + j / 2] >> j % 2 * 4;
		o->s[j / 2] = (int8_t)(2 * (bits_at(s + j / 8 * 2) >> j / 2 % 4 * 3 & 7) + 1);
		put_iq1(p[j] | (upper & 7) << 8, upper & 8, o->q + 8 * j);
	}
	scales_of(o, 0.125f);
}

/* --- digits of base 3 --- */

static void ternary(struct block_parts *o, const uint8_t *d)
{
	parts_of(o, 16, d, NULL);
	memset(o->s, 1, sizeof o->s);
	scales_of(o, 1);
}

/* Digit n of base 3: the integer part of 3 w / 256, where w is v 3^n mod 256. */
static int8_t ternary_digit(uint8_t v, int n)
{
	static const uint8_t power[5] = {1, 3, 9, 27, 81};
	return (int8_t)(((uint8_t)(v * power[n]) * 3 >> 8) - 1);
}

static void split_tq1_0(const uint8_t *p, struct block_parts *o)
{
	ternary(o, p + 52);
	for (int i = 0; i < 160; i++)
		o->q[i] = ternary_digit(p[i % 32], i / 32);
	for (int i = 0; i < 80; i++)
		o->q[160 + i] = ternary_digit(p[32 + i % 16], i / 16);
	for (int i = 0; i < 16; i++)
		o->q[240 + i] = ternary_digit(p[48 + i % 4], i / 4);
}

static void split_tq2_0(const uint8_t *p, struct block_parts *o)
{
	ternary(o, p + 64);
	crumbs(p, o->q);
	for (int i = 0; i < 256; i++)
		o->q[i]--;
}

/* --- all formats --------------------------------------------------------- */

void blocks_split(enum quant q, const void *block, struct block_parts *out)
{
	static void (*const split[QUANT_COUNT])(const uint8_t *p,
						struct block_parts *o) = {
#define QUANT(...)
#define QUANT_BLOCK(ident, name, ...) [QUANT_##ident] = split_##name,
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
	};
	assert(split[q]);
	split[q](block, out);
}

enum status quant_blocks_open(const struct quant_want *w, struct weight *out,
			      struct fail *fail)
{
	static const enum dtype types[] = {DTYPE_BLOCKS, DTYPE_COUNT};
	const struct tensor *t;
	enum status st = quant_tensor(w, "weight", w->n, w->k, types, &t, fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = t->quant, .n = w->n, .k = w->k,
			       .group = quant_block(t->quant), .q = t->data,
			       .name = t->name, .source = t->source,
			       .source_row = quant_made_row(t),
			       .row_step = w->part ? w->part->step : 0};
	return quant_factor(w, &out->global_scale, fail);
}

void quant_blocks_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			 float *out)
{
	int32_t block = quant_block(w->quant);
	size_t size = quant_block_bytes(w->quant), step = w->row_step ? w->row_step : 1;
	const uint8_t *p = (const uint8_t *)w->q +
			   (size_t)row * step * (size_t)(w->k / block) * size;
	struct block_parts b;
	bool has_factor = w->quant == QUANT_NVFP4_BLOCK;
	for (int32_t k = k0, end; k < k1; k = end) {
		int32_t first = k / block * block;
		end = MIN(first + block, k1);
		blocks_split(w->quant, p + (size_t)(k / block) * size, &b);
		for (int32_t i = k - first, stop; i < end - first; i = stop) {
			int32_t sub = i / b.n_sub;
			stop = MIN((sub + 1) * b.n_sub, end - first);
			float scale = b.scale[sub], min = b.min[sub];
			if (has_factor)
				scale = (float)((double)scale * blocks_factor(w));
			for (int32_t j = i; j < stop; j++) {
				int q = b.q[j];
				if (w->quant == QUANT_NF4)
					q = q * 256 + b.low[j];
				float scaled = (float)q * scale;
				*out++ = scaled - min;
			}
		}
	}
}
