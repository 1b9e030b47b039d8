/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts weights to a format that kernels read fast, when they are loaded. Nothing is
 * rounded: integers, scales and zero points stay the same. All CPUs share the work.
 *
 * AWQ and GPTQ store the outputs of a weight side by side, but kernels read an output's
 * row in one run. So such weights are transposed to int4 or int8. Where the inputs of a group are
 * scattered (desc_act, actorder), the columns of a row are sorted by group.
 *
 * GGUF's blocks Q4_0, Q8_0, MXFP4 and NVFP4 have the numbers of int4, int8, mxfp4 and nvfp4,
 * with scales between them. Separating the scales aligns every load, and the kernels of the other
 * files can be used. A row keeps its size. (A scale's exponent of 255, which no file has, becomes
 * NaN in mxfp4; in a block it means 2^127.) Q1_0 and Q2_0 become int4.
 *
 * TQ1_0's digits of base 3 become the 2-bit numbers of TQ2_0.
 *
 * A float32 matrix is stored in 16 bits if that changes none of its numbers. GGUF files have
 * routers and other small matrices in float32, though their converters read bf16. In 16 bits a
 * router needs no launch of its own (moe_route.hip), and all matrices half the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_weight.h"
#include "base/alloc.h"
#include "model/formats/blocks.h"

/* --- AWQ and GPTQ, and groups in any order --------------------------------------------- */

/* True if w's outputs are rows already. */
static bool has_rows(const struct weight *w)
{
	return w->quant == QUANT_INT4 || w->quant == QUANT_INT8;
}

/* Integer of input i and output n. */
static uint32_t integer_at(const struct weight *w, int bits, int32_t i, int32_t n)
{
	const uint32_t *q = w->q;
	if (has_rows(w))
		return (uint32_t)blocks_integer(q, bits, (size_t)n * (size_t)w->k + (size_t)i);
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
	if (has_rows(w))
		return zeros[(size_t)(n / p) * (size_t)(w->k / w->group) + (size_t)g] >>
			       n % p * bits & ((1u << bits) - 1);
	uint32_t word = zeros[(size_t)g * (size_t)(w->n / p) + (size_t)(n / p)];
	return ((word >> n % p * bits) + (uint32_t)w->zero_step) & ((1u << bits) - 1);
}

/* The input of column i. */
static int32_t input_of(const struct weight_plan *p, int32_t i)
{
	return p->order ? p->order[i] : i;
}

/* Writes outputs [8 begin, 8 end) as rows: they share a word of zero points and, of AWQ and GPTQ,
 * cache lines of the source. */
static void put_in_rows(void *arg, int begin, int end)
{
	const struct weight_plan *p = arg;
	const struct weight *w = p->from;
	int bits = quant_bits(p->to.quant);
	int32_t each = 32 / bits, words = w->k / each, groups = w->k / w->group;
	size_t size = dtype_bytes(w->scale_type);
	uint32_t *q = (uint32_t *)(void *)p->made[0], *zeros = (uint32_t *)(void *)p->made[2];
	for (int32_t n = begin * 8; n < end * 8 && n < w->n; n++) {
		for (int32_t j = 0; j < words; j++) {
			uint32_t word = 0;
			for (int32_t i = 0; i < each; i++)
				word |= integer_at(w, bits, input_of(p, j * each + i), n)
					<< i * bits;
			q[(size_t)n * (size_t)words + (size_t)j] = word;
		}
		for (int32_t g = 0; g < groups; g++) {
			size_t to = (size_t)n * (size_t)groups + (size_t)g;
			size_t from = has_rows(w) ? to : (size_t)g * (size_t)w->n + (size_t)n;
			if (w->zero_points)
				zeros[(size_t)(n / each) * (size_t)groups + (size_t)g] |=
					zero_at(w, bits, g, n) << n % each * bits;
			memcpy(p->made[1] + to * size, (const char *)w->scales + from * size, size);
		}
	}
}

/* True if all zero points have the value of formats without zero points. */
static bool is_symmetric(const struct weight_plan *p)
{
	const uint32_t *zeros = (const uint32_t *)(void *)p->made[2];
	uint32_t middle = p->to.quant == QUANT_INT4 ? 0x88888888u : 0x80808080u;
	for (size_t i = 0; i < p->array[2].n * p->array[2].row_bytes / 4; i++)
		if (zeros[i] != middle)
			return false;
	return true;
}

/* --- blocks ------------------------------------------------------------------------- */

/* Block i of row n. */
static const uint8_t *block_at(const struct weight *w, size_t n, size_t i)
{
	size_t blocks = (size_t)w->k / (size_t)quant_block(w->quant);
	return (const uint8_t *)w->q +
	       (n * (size_t)MAX(w->row_step, 1) * blocks + i) * quant_block_bytes(w->quant);
}

/* The nibble of a number of a block: e2m1, whose numbers are doubled and have no -0; or int4. */
static uint8_t nibble_of(bool is_e2m1, int8_t q)
{
	static const uint8_t of_twice[13] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};
	if (!is_e2m1)
		return (uint8_t)(q + 8);
	return (uint8_t)(q < 0 ? of_twice[-q] | 8 : of_twice[q]);
}

/* Separates the numbers and scales of rows [begin, end). */
static void hip_repack_split(void *arg, int begin, int end)
{
	const struct weight_plan *p = arg;
	const struct weight *w = p->from;
	bool is_byte = p->to.quant == QUANT_INT8, is_e2m1 = p->to.quant != QUANT_INT4;
	size_t block = (size_t)quant_block(w->quant), blocks = (size_t)w->k / block;
	size_t n_q = is_byte ? block : block / 2, n_scales = p->array[1].row_bytes / blocks;
	struct block_parts b;
	for (size_t n = (size_t)begin; n < (size_t)end; n++)
		for (size_t i = 0; i < blocks; i++) {
			const uint8_t *from = block_at(w, n, i);
			uint8_t *q = p->made[0] + (n * blocks + i) * n_q;
			blocks_split(w->quant, from, &b);
			memcpy(p->made[1] + (n * blocks + i) * n_scales,
			       w->quant == QUANT_NVFP4_BLOCK ? (const void *)b.s : from, n_scales);
			for (size_t j = 0; j < n_q; j++)
				q[j] = is_byte ? (uint8_t)b.q[j] ^ 0x80
					       : (uint8_t)(nibble_of(is_e2m1, b.q[2 * j]) |
							   nibble_of(is_e2m1, b.q[2 * j + 1]) << 4);
		}
}

/* Makes TQ2_0 of rows [begin, end) of TQ1_0. */
static void pack_digits(void *arg, int begin, int end)
{
	const struct weight_plan *p = arg;
	size_t blocks = (size_t)p->from->k / 256, to = quant_block_bytes(QUANT_TQ2_0);
	struct block_parts b;
	for (size_t n = (size_t)begin; n < (size_t)end; n++)
		for (size_t i = 0; i < blocks; i++) {
			uint8_t *out = p->made[0] + (n * blocks + i) * to;
			blocks_split(QUANT_TQ1_0, block_at(p->from, n, i), &b);
			memset(out, 0, to - sizeof b.d);
			memcpy(out + to - sizeof b.d, &b.d, sizeof b.d);
			for (int j = 0; j < 256; j++)
				out[j / 128 * 32 + j % 32] |=
					(uint8_t)((b.q[j] + 1) << j / 32 % 4 * 2);
		}
}

/* --- plain numbers ------------------------------------------------------------------ */

/* Puts the elements of rows [begin, end) of a transposed or interleaved weight in row order. */
static void put_in_order(void *arg, int begin, int end)
{
	const struct weight_plan *p = arg;
	const struct weight *w = p->from;
	size_t size = (size_t)quant_bits(w->quant) / 8, k = (size_t)w->k;
	for (size_t i = (size_t)begin; i < (size_t)end; i++)
		for (size_t j = 0; j < k; j++)
			memcpy(p->made[0] + (i * k + j) * size,
			       (const char *)w->q + (j * (size_t)w->k_step +
						     i * (size_t)w->row_step) * size,
			       size);
}

/* Stores rows [begin, end) of f32 in 16 bits, and sees whether all numbers stay what they are. */
static void narrow(void *arg, int begin, int end)
{
	struct weight_plan *p = arg;
	enum dtype type = p->to.quant == QUANT_BF16 ? DTYPE_BF16 : DTYPE_F16;
	uint16_t *q = (uint16_t *)(void *)p->made[0];
	size_t k = (size_t)p->from->k, last = (size_t)end * k;
	bool is_exact = true;
	for (size_t i = (size_t)begin * k; i < last && is_exact; i++) {
		float x = blocks_float(p->from->q, DTYPE_F32, i), back;
		uint32_t bits;
		memcpy(&bits, &x, sizeof bits);
		q[i] = type == DTYPE_BF16 ? (uint16_t)(bits >> 16) : blocks_to_f16(x);
		back = blocks_float(q, type, i);
		is_exact = memcmp(&x, &back, sizeof x) == 0;
	}
	if (!is_exact)
		atomic_store(&p->is_rounded, true);
}

/* ------------------------------------------------------------------------------------ */

hip_convert_fn hip_repack(const struct weight *w, enum quant to)
{
	if (w->k_step)
		return put_in_order;
	if (w->group_of)
		return put_in_rows;
	if (w->quant == to)
		return NULL;
	if (w->quant == QUANT_TQ1_0)
		return pack_digits;
	return quant_block(w->quant) ? hip_repack_split
	       : w->quant == QUANT_F32 ? narrow : put_in_rows;
}

enum status hip_weight_convert(struct hip *h, struct weight_plan *p)
{
	size_t at[HIP_WEIGHT_ARRAYS], n_bytes = 0;
	for (int i = 0; i < HIP_WEIGHT_ARRAYS; i++) {
		at[i] = n_bytes;
		n_bytes += ROUND_UP(p->array[i].row_bytes * p->array[i].n, 16);
	}
	p->memory = malloc(n_bytes);
	if (!p->memory)
		return E_NOMEM;
	for (int i = 0; i < HIP_WEIGHT_ARRAYS; i++) {
		p->made[i] = (uint8_t *)p->memory + at[i];
		p->array[i].src = p->array[i].n ? p->made[i] : NULL;
	}
	memset(p->made[2], 0, n_bytes - at[2]);
	if (!h->pool)
		h->pool = pool_create(0);
	bool in_eights = p->convert == put_in_rows;
	pool_for(h->pool, in_eights ? DIV_UP(p->from->n, 8) : p->from->n, in_eights ? 8 : 16,
		 p->convert, p);
	if (p->array[2].n && is_symmetric(p))
		p->array[2].src = NULL;
	return OK;
}
