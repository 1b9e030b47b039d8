/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts weights to a format that kernels read fast, when they are loaded. Nothing is
 * rounded: integers, scales and zero points stay the same. All CPUs share the work.
 *
 * AWQ and GPTQ store the outputs of a weight side by side, but kernels read an output's
 * row in one run. So such weights are transposed to int4 or int8.
 *
 * GGUF's blocks Q4_0, Q8_0 and MXFP4 have the numbers of int4, int8 and mxfp4, with a
 * scale between every 18, 34 or 17 bytes. Separating the scales aligns every load, and
 * the kernels of the other files can be used. A row keeps its size. (A scale's exponent
 * of 255, which no file has, becomes NaN in mxfp4; in a block it means 2^127.)
 *
 * NVFP4's blocks become nvfp4, whose scales stand apart, too; Q1_0 and Q2_0 become int4.
 *
 * TQ1_0's digits of base 3 become the 2-bit numbers of TQ2_0.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip.h"
#include "base/alloc.h"

struct repack {
	const struct weight *from;
	uint32_t *q, *zeros; /* arrays of the result */
	char *scales;
	int bits;
	int32_t groups;
};

/* Integer of input i and output n. */
static uint32_t integer_at(const struct weight *w, int bits, int32_t i, int32_t n)
{
	const uint32_t *q = w->q;
	if (w->quant == QUANT_AWQ4)
		return q[(size_t)i * (size_t)(w->n / 8) + (size_t)n / 8] >>
			       4 * blocks_awq_order(n % 8) & 15;
	int32_t p = 32 / bits;
	return q[(size_t)(i / p) * (size_t)w->n + (size_t)n] >> i % p * bits &
	       ((1u << bits) - 1);
}

static uint32_t zero_at(const struct weight *w, int bits, int32_t g, int32_t n)
{
	const uint32_t *zeros = w->zero_points;
	if (w->quant == QUANT_AWQ4)
		return zeros[(size_t)g * (size_t)(w->n / 8) + (size_t)n / 8] >>
			       4 * blocks_awq_order(n % 8) & 15;
	int32_t p = 32 / bits;
	uint32_t word = zeros[(size_t)g * (size_t)(w->n / p) + (size_t)(n / p)];
	return ((word >> n % p * bits) + (uint32_t)w->zero_step) & ((1u << bits) - 1);
}

/* Repack outputs [8 begin, 8 end). */
static void repack_part(void *arg, int begin, int end)
{
	const struct repack *r = arg;
	const struct weight *w = r->from;
	int32_t p = 32 / r->bits, words = w->k / p;
	size_t size = dtype_bytes(w->scale_type);
	for (int32_t n = begin * 8; n < end * 8 && n < w->n; n++) {
		for (int32_t j = 0; j < words; j++) {
			uint32_t word = 0;
			for (int32_t i = 0; i < p; i++)
				word |= integer_at(w, r->bits, j * p + i, n) << i * r->bits;
			r->q[(size_t)n * (size_t)words + (size_t)j] = word;
		}
		for (int32_t g = 0; g < r->groups; g++) {
			r->zeros[(size_t)(n / p) * (size_t)r->groups + (size_t)g] |=
				zero_at(w, r->bits, g, n) << n % p * r->bits;
			memcpy(r->scales + ((size_t)n * (size_t)r->groups + (size_t)g) * size,
			       (const char *)w->scales +
				       ((size_t)g * (size_t)w->n + (size_t)n) * size,
			       size);
		}
	}
}

/* True if all zero points have the value of formats without zero points. */
static bool is_symmetric(const struct repack *r, size_t n)
{
	uint32_t middle = r->bits == 4 ? 0x88888888u : 0x80808080u;
	for (size_t i = 0; i < n; i++)
		if (r->zeros[i] != middle)
			return false;
	return true;
}

/* --- blocks ----------------------------------------------------------------------- */

/* True if quant.def says REPACKED for q. */
static bool is_repacked(enum quant q)
{
	enum { PLAIN, OWN, UNITS, UNITS_MIN, REPACKED };
	static const uint8_t units[QUANT_COUNT] = {
#define QUANT(ident, name, bits, reader, form, scaling, units) [QUANT_##ident] = units,
#define QUANT_BLOCK(ident, name, bits, block, bytes, gguf, form, scaling, units) \
	[QUANT_##ident] = units,
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
	};
	return units[q] == REPACKED;
}

static bool is_plain_block(enum quant q)
{
	return quant_block(q) && is_repacked(q);
}

/* Nibble i of a block; the low nibbles are the first sixteen elements. In a block's e2m1,
 * code 8 is 0; the format mxfp4 would read -0. */
static uint8_t nibble_at(const uint8_t *q, int i, bool is_mx)
{
	uint8_t n = q[i % 16] >> i / 16 * 4 & 15;
	return is_mx && n == 8 ? 0 : n;
}

static uint8_t pair_at(const uint8_t *q, int i, bool is_mx)
{
	return (uint8_t)(nibble_at(q, i, is_mx) | nibble_at(q, i + 1, is_mx) << 4);
}

struct unblock {
	const struct weight *from;
	uint8_t *q, *scales;
};

/* Convert rows [begin, end). */
static void unblock_part(void *arg, int begin, int end)
{
	const struct unblock *u = arg;
	const struct weight *w = u->from;
	enum quant quant = w->quant;
	size_t blocks = (size_t)w->k / 32, bytes = quant_block_bytes(quant);
	size_t head = quant == QUANT_MXFP4_BLOCK ? 1 : 2, n_q = bytes - head;
	size_t row_step = w->row_step ? (size_t)w->row_step : 1;
	for (size_t n = (size_t)begin; n < (size_t)end; n++) {
		const uint8_t *from = (const uint8_t *)w->q + n * row_step * blocks * bytes;
		for (size_t b = 0; b < blocks; b++, from += bytes) {
			uint8_t *q = u->q + (n * blocks + b) * n_q;
			memcpy(u->scales + (n * blocks + b) * head, from, head);
			for (int i = 0; i < (int)n_q; i++)
				q[i] = quant == QUANT_Q8_0
					       ? from[head + (size_t)i] ^ 0x80
					       : pair_at(from + head, 2 * i, head == 1);
		}
	}
}

/* Convert a weight of blocks. *memory is one allocation: q, then scales. */
static enum status unblock(struct hip *h, const struct weight *w, struct weight *out,
			   void **memory)
{
	bool is_mx = w->quant == QUANT_MXFP4_BLOCK;
	size_t blocks = (size_t)w->n * (size_t)w->k / 32;
	size_t n_q = quant_block_bytes(w->quant) - (is_mx ? 1 : 2);
	char *p = malloc(blocks * quant_block_bytes(w->quant));
	if (!p)
		return E_NOMEM;
	struct unblock u = {w, (uint8_t *)p, (uint8_t *)p + blocks * n_q};
	pool_for(h->pool, w->n, 16, unblock_part, &u);
	*out = (struct weight){
		.quant = is_mx			  ? QUANT_MXFP4
			 : w->quant == QUANT_Q4_0 ? QUANT_INT4
						  : QUANT_INT8,
		.n = w->n, .k = w->k, .group = 32, .q = u.q, .scales = u.scales,
		.scale_type = is_mx ? DTYPE_F8_E8M0 : DTYPE_F16, .name = w->name,
		.is_table = w->is_table};
	*memory = p;
	return OK;
}

/* --- blocks that are split -------------------------------------------------------- */

/* The nibble of a number of a block: e2m1 of NVFP4, which has no -0; int4 of Q1_0, Q2_0. */
static uint8_t nibble_of(bool is_e2m1, int8_t q)
{
	static const uint8_t of_twice[13] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};
	if (!is_e2m1)
		return (uint8_t)(q + 8);
	return (uint8_t)(q < 0 ? of_twice[-q] | 8 : of_twice[q]);
}

/* Convert rows [begin, end). */
static void split_part(void *arg, int begin, int end)
{
	const struct unblock *u = arg;
	const struct weight *w = u->from;
	bool is_e2m1 = w->quant == QUANT_NVFP4_BLOCK;
	size_t block = (size_t)quant_block(w->quant), from = quant_block_bytes(w->quant);
	size_t blocks = (size_t)w->k / block, n_scales = is_e2m1 ? 4 : 2;
	size_t row_step = w->row_step ? (size_t)w->row_step : 1;
	struct block_parts b;
	for (size_t n = (size_t)begin; n < (size_t)end; n++)
		for (size_t i = 0; i < blocks; i++) {
			uint8_t *q = u->q + (n * blocks + i) * block / 2;
			blocks_split(w->quant, (const uint8_t *)w->q +
				     (n * row_step * blocks + i) * from, &b);
			memcpy(u->scales + (n * blocks + i) * n_scales,
			       is_e2m1 ? (const void *)b.s : &b.d, n_scales);
			for (size_t j = 0; j < block / 2; j++)
				q[j] = (uint8_t)(nibble_of(is_e2m1, b.q[2 * j]) |
						 nibble_of(is_e2m1, b.q[2 * j + 1]) << 4);
		}
}

static bool is_split(enum quant q)
{
	return q == QUANT_NVFP4_BLOCK || q == QUANT_Q1_0 || q == QUANT_Q2_0;
}

static enum status split(struct hip *h, const struct weight *w, struct weight *out,
			 void **memory)
{
	bool is_e2m1 = w->quant == QUANT_NVFP4_BLOCK;
	size_t n = (size_t)w->n * (size_t)w->k, block = (size_t)quant_block(w->quant);
	uint8_t *p = malloc(n / 2 + n / block * (is_e2m1 ? 4 : 2));
	if (!p)
		return E_NOMEM;
	struct unblock u = {w, p, p + n / 2};
	pool_for(h->pool, w->n, 16, split_part, &u);
	*out = (struct weight){
		.quant = is_e2m1 ? QUANT_NVFP4 : QUANT_INT4, .n = w->n, .k = w->k,
		.group = is_e2m1 ? 16 : (int32_t)block, .q = u.q, .scales = u.scales,
		.scale_type = is_e2m1 ? DTYPE_F8_E4M3 : DTYPE_F16, .name = w->name,
		.global_scale = is_e2m1 ? blocks_factor(w) : 0, .is_table = w->is_table};
	*memory = p;
	return OK;
}

/* --- digits of base 3 ------------------------------------------------------------- */

/* Convert rows [begin, end) of TQ1_0. */
static void digits_part(void *arg, int begin, int end)
{
	const struct unblock *u = arg;
	const struct weight *w = u->from;
	size_t blocks = (size_t)w->k / 256, from = quant_block_bytes(QUANT_TQ1_0);
	size_t to = quant_block_bytes(QUANT_TQ2_0);
	size_t row_step = w->row_step ? (size_t)w->row_step : 1;
	struct block_parts b;
	for (size_t n = (size_t)begin; n < (size_t)end; n++)
		for (size_t i = 0; i < blocks; i++) {
			uint8_t *out = u->q + (n * blocks + i) * to;
			blocks_split(QUANT_TQ1_0,
				     (const uint8_t *)w->q +
					     (n * row_step * blocks + i) * from, &b);
			memset(out, 0, to - sizeof b.d);
			memcpy(out + to - sizeof b.d, &b.d, sizeof b.d);
			for (int j = 0; j < 256; j++)
				out[j / 128 * 32 + j % 32] |=
					(uint8_t)((b.q[j] + 1) << j / 32 % 4 * 2);
		}
}

static enum status undigit(struct hip *h, const struct weight *w, struct weight *out,
			   void **memory)
{
	struct unblock u = {.from = w};
	u.q = malloc((size_t)w->n * (size_t)w->k / 256 * quant_block_bytes(QUANT_TQ2_0));
	if (!u.q)
		return E_NOMEM;
	pool_for(h->pool, w->n, 16, digits_part, &u);
	*out = (struct weight){.quant = QUANT_TQ2_0, .n = w->n, .k = w->k, .group = w->group,
			       .q = u.q, .name = w->name, .is_table = w->is_table};
	*memory = u.q;
	return OK;
}

/* ---------------------------------------------------------------------------------- */

bool hip_repacks(const struct weight *w)
{
	return is_repacked(w->quant);
}

enum status hip_repack(struct hip *h, const struct weight *w, struct weight *out,
		       void **memory)
{
	if (!h->pool)
		h->pool = pool_create(0);
	if (w->quant == QUANT_TQ1_0)
		return undigit(h, w, out, memory);
	if (is_split(w->quant))
		return split(h, w, out, memory);
	if (is_plain_block(w->quant))
		return unblock(h, w, out, memory);
	struct repack r = {.from = w, .bits = quant_bits(w->quant),
			   .groups = w->k / w->group};
	size_t n = (size_t)w->n, groups = (size_t)r.groups;
	size_t n_q = n * (size_t)w->k * (size_t)r.bits / 8;
	size_t n_zero = (n * (size_t)r.bits + 31) / 32 * groups;
	size_t n_scales = n * groups * dtype_bytes(w->scale_type);
	char *p = malloc(n_q + n_zero * 4 + n_scales);
	if (!p)
		return E_NOMEM;
	r.q = (uint32_t *)p;
	r.zeros = (uint32_t *)(p + n_q);
	r.scales = p + n_q + n_zero * 4;
	memset(r.zeros, 0, n_zero * 4);
	/* A piece is eight outputs: they share a word of zero points and cache lines of
	 * the source. */
	pool_for(h->pool, (w->n + 7) / 8, 8, repack_part, &r);
	*out = (struct weight){
		.quant = r.bits == 4 ? QUANT_INT4 : QUANT_INT8, .n = w->n, .k = w->k,
		.group = w->group, .q = r.q, .scales = r.scales,
		.scale_type = w->scale_type, .name = w->name,
		.zero_points = is_symmetric(&r, n_zero) ? NULL : r.zeros};
	*memory = p;
	return OK;
}
