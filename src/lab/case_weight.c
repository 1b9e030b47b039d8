/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/case_weight.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"

enum {
	POOL = 1021, /* different blocks of a weight; a prime, so no column repeats */
	FP8_BLOCK = 128
};

/* No weight in a block is larger, so that halves do not overflow. */
#define LARGEST 0.25f

uint64_t case_weight_bits(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
	uint64_t x = *state ^ *state >> 33;
	return x * 0xFF51AFD7ED558CCDu ^ x;
}

/* A random bfloat16 of magnitude 1/2 to 1. */
static uint16_t random_bf16(uint64_t *state)
{
	uint64_t r = case_weight_bits(state);
	return (uint16_t)((r >> 20 & 0x8000) | 0x3F00 | (r & 0x7F));
}

/* --- sizes ------------------------------------------------------------------------ */

static bool is_gptq(enum quant q)
{
	return q == QUANT_GPTQ4 || q == QUANT_GPTQ8;
}

/* A weight of this form, without addresses. */
static struct weight form_of(enum quant quant, int32_t n, int32_t k,
			     const struct case_weight_opts *o)
{
	struct weight w = {.quant = quant, .n = n, .k = k, .group = k,
			   .scale_type = DTYPE_BF16, .name = "bench"};
	if (quant_block(quant)) {
		w.group = quant_block(quant);
	} else if (quant == QUANT_INT4 || quant == QUANT_AWQ4 || is_gptq(quant)) {
		w.group = o->group;
		w.zero_step = is_gptq(quant);
	} else if (quant == QUANT_INT8) {
		w.scale_type = DTYPE_F32;
	} else if (quant == QUANT_FP8) {
		w.scale_type = DTYPE_F32;
		w.group = w.group_n = FP8_BLOCK;
	} else if (quant == QUANT_NVFP4) {
		w.scale_type = DTYPE_F8_E4M3;
		w.group = 16;
		w.global_scale = 1.0 / 4096;
	} else if (quant == QUANT_MXFP4) {
		w.scale_type = DTYPE_F8_E8M0;
		w.group = 32;
	}
	return w;
}

static bool has_scales(enum quant q)
{
	return !quant_block(q) && quant_bits(q) < 16;
}

static bool has_zeros(enum quant q, const struct case_weight_opts *o)
{
	return q == QUANT_AWQ4 || is_gptq(q) || (q == QUANT_INT4 && o->is_asymmetric);
}

static size_t groups_of(const struct weight *w)
{
	return DIV_UP((size_t)w->k, (size_t)w->group);
}

static size_t n_scales(const struct weight *w)
{
	size_t each = w->group_n ? (size_t)w->group_n : 1;
	return DIV_UP((size_t)w->n, each) * groups_of(w);
}

static size_t n_zeros(const struct weight *w)
{
	size_t per_word = 32 / (size_t)quant_bits(w->quant);
	return DIV_UP((size_t)w->n, per_word) * groups_of(w);
}

static size_t number_bytes(const struct weight *w)
{
	size_t n = (size_t)w->n, k = (size_t)w->k;
	if (quant_block(w->quant))
		return n * (k / (size_t)quant_block(w->quant)) * quant_block_bytes(w->quant);
	return n * k * (size_t)quant_bits(w->quant) / 8;
}

size_t case_weight_bytes(enum quant quant, int32_t n, int32_t k,
			 const struct case_weight_opts *o)
{
	struct weight w = form_of(quant, n, k, o);
	w.scales = has_scales(quant) ? &w : NULL; /* only counts as a sign that there are scales */
	w.zero_points = has_zeros(quant, o) ? &w : NULL;
	return weight_bytes(&w);
}

/* --- contents --------------------------------------------------------------------- */

static bool is_small_block(enum quant q, const void *block)
{
	float x[ARRAY_LEN(((struct block_parts *)NULL)->q)];
	struct weight w = {.quant = q, .q = block, .n = 1, .k = quant_block(q)};
	weight_decode(&w, 0, 1, x);
	for (int32_t i = 0; i < w.k; i++)
		if (!(fabsf(x[i]) <= LARGEST))
			return false;
	return true;
}

/* Fill `to` with whole blocks, which are taken in turn from a pool of random ones. Of random
 * bytes only those are taken whose numbers are small. */
static bool fill_blocks(uint64_t *state, enum quant q, uint8_t *to, size_t n_bytes)
{
	size_t each = quant_block_bytes(q), n = n_bytes / each;
	uint8_t *pool = malloc(POOL * each);
	if (!pool)
		return false;
	for (size_t b = 0; b < MIN(n, (size_t)POOL); b++)
		do
			for (size_t i = 0; i < each; i++)
				pool[b * each + i] = (uint8_t)(case_weight_bits(state) >> 24);
		while (!is_small_block(q, pool + b * each));
	for (size_t b = 0; b < n; b++)
		memcpy(to + b * each, pool + b % POOL * each, each);
	free(pool);
	return true;
}

/* The type of a format whose numbers are plain, or DTYPE_COUNT. */
static enum dtype plain_type(enum quant q)
{
	return q == QUANT_F32    ? DTYPE_F32
	       : q == QUANT_F16  ? DTYPE_F16
	       : q == QUANT_BF16 ? DTYPE_BF16
				 : DTYPE_COUNT;
}

/* One word of numbers. */
static uint32_t random_word(uint64_t *state, enum quant q)
{
	uint64_t r = case_weight_bits(state);
	if (q == QUANT_F32) /* near a bf16, but none: those are loaded as bf16 */
		return (uint32_t)random_bf16(state) << 16 | ((uint32_t)r & 0xFFFF) | 1;
	if (q == QUANT_BF16)
		return (uint32_t)random_bf16(state) << 16 | random_bf16(state);
	if (q == QUANT_F16) /* 1/2 to 1 */
		return 0x38003800u | ((uint32_t)r & 0x83FF83FFu);
	if (q == QUANT_FP8) /* below 2, and no NaN */
		return (uint32_t)r & 0xBFBFBFBFu;
	return (uint32_t)r;
}

/* Scales of 1/128 to 1/64; of NVFP4 2^-6 to 2^6 before the global scale. */
static void fill_scales(uint64_t *state, const struct weight *w, void *to)
{
	for (size_t i = 0; i < n_scales(w); i++) {
		uint64_t r = case_weight_bits(state) >> 20;
		uint16_t bits = (uint16_t)(0x3C00 | (r & 0x7F));
		if (w->scale_type == DTYPE_F8_E4M3)
			((uint8_t *)to)[i] = (uint8_t)(0x08 + r % 0x60);
		else if (w->scale_type == DTYPE_F8_E8M0)
			((uint8_t *)to)[i] = (uint8_t)(118 + r % 4);
		else if (w->scale_type == DTYPE_F32)
			((uint32_t *)to)[i] = (uint32_t)bits << 16;
		else
			((uint16_t *)to)[i] = bits;
	}
}

static bool fill(uint64_t *state, struct case_weight *c)
{
	enum quant q = c->w.quant;
	size_t n_bytes = number_bytes(&c->w), n_zero = n_zeros(&c->w);
	uint32_t *words = c->q, *zeros = c->zeros;
	if (quant_block(q))
		return fill_blocks(state, q, c->q, n_bytes);
	for (size_t i = 0; i < (n_bytes + 3) / 4; i++)
		words[i] = random_word(state, q);
	if (c->scales)
		fill_scales(state, &c->w, c->scales);
	for (size_t i = 0; zeros && i < n_zero; i++)
		zeros[i] = (uint32_t)case_weight_bits(state);
	return true;
}

enum status case_weight_make(uint64_t *state, enum quant quant, int32_t n, int32_t k,
			     const struct case_weight_opts *o, struct case_weight *out,
			     struct fail *fail)
{
	*out = (struct case_weight){.w = form_of(quant, n, k, o)};
	struct weight *w = &out->w;
	if (quant_block(quant) && k % quant_block(quant) != 0)
		return fail_set(fail, E_UNSUPPORTED, "%s: rows of %d are no whole blocks of %d",
				quant_name(quant), (int)k, quant_block(quant));
	if (o->is_null) {
		w->q = out;
		w->scales = has_scales(quant) ? out : NULL;
		return OK;
	}
	out->q = calloc(number_bytes(w) + 16, 1);
	if (has_scales(quant))
		out->scales = calloc(n_scales(w) + 1, dtype_bytes(w->scale_type));
	if (has_zeros(quant, o))
		out->zeros = calloc(n_zeros(w), sizeof(uint32_t));
	bool has_room = out->q && (out->scales || !has_scales(quant)) &&
			(out->zeros || !has_zeros(quant, o));
	if (!has_room || !fill(state, out))
		return fail_default(fail, E_NOMEM);
	w->q = out->q;
	w->scales = out->scales;
	w->zero_points = out->zeros;
	if (plain_type(quant) != DTYPE_COUNT)
		w->scale_type = plain_type(quant);
	return OK;
}

void case_weight_deinit(struct case_weight *w)
{
	free(w->q);
	free(w->scales);
	free(w->zeros);
}

/* --- names ------------------------------------------------------------------------ */

static void no_format(struct fail *fail, const char *name, size_t n)
{
	struct buf b = {0};
	for (enum quant q = 0; q < QUANT_COUNT; q++)
		buf_addf(&b, "%s%s", q ? ", " : "", quant_name(q));
	fail_set(fail, E_INVAL, "there is no format \"%.*s\"; the formats are %.*s",
		 (int)MIN(n, (size_t)40), name, (int)b.n, b.p);
	buf_deinit(&b);
}

int case_weight_formats(const char *list, enum quant *out, struct fail *fail)
{
	bool is_taken[QUANT_COUNT] = {false};
	int n = 0;
	for (const char *p = list;; p++) {
		size_t len = strcspn(p, ",");
		enum quant q = 0;
		while (q < QUANT_COUNT &&
		       (strlen(quant_name(q)) != len || memcmp(p, quant_name(q), len) != 0))
			q++;
		if (q == QUANT_COUNT) {
			no_format(fail, p, len);
			return 0;
		}
		if (!is_taken[q])
			out[n++] = q;
		is_taken[q] = true;
		p += len;
		if (!*p)
			return n;
	}
}
