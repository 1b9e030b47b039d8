/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of formats: how each is opened and decoded.
 *
 * A layer has the format of its quantization_config if the tensor exists that only this
 * format has. If the checkpoint has plain numbers instead, the layer is plain. The config
 * alone is not enough: it may select layers by class, which a checkpoint does not record,
 * and each writer spells lists of exceptions differently.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/formats/quant.h"

/* For each reader: the suffix of the tensor that holds the numbers, and a second spelling
 * or NULL. */
#define NAMES_plain "weight", NULL
#define NAMES_ct "weight_packed", NULL
#define NAMES_awq "qweight", NULL
#define NAMES_gptq "qweight", NULL
#define NAMES_nvfp4 "weight_packed", "weight"
#define NAMES_mxfp4 "weight_packed", "weight"
#define NAMES_fp8 "weight", NULL

static const struct {
	const char *packed, *alias;
	enum status (*open)(const struct quant_want *w, struct weight *out,
			    struct fail *fail);
	void (*decode)(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		       float *out);
} formats[QUANT_COUNT] = {
#define QUANT(ident, name, bits, reader, ...) \
	[QUANT_##ident] = {NAMES_##reader, quant_##reader##_open, quant_##reader##_decode},
#define QUANT_BLOCK(ident, ...) \
	[QUANT_##ident] = {"weight", NULL, quant_blocks_open, quant_blocks_decode},
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
};

/* --- decoding ------------------------------------------------------------- */

void weight_decode_part(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			float *out)
{
	if (w->source)
		quant_made_decode(w, row, k0, k1, out);
	else
		formats[w->quant].decode(w, row, k0, k1, out);
	for (int32_t k = k0; w->in_scale && k < k1; k++)
		out[k - k0] *= w->in_scale[k];
}

void weight_decode(const struct weight *w, int32_t n0, int32_t n1, float *out)
{
	assert(0 <= n0 && n0 <= n1 && n1 <= w->n);
	for (int32_t row = n0; row < n1; row++, out += w->k)
		weight_decode_part(w, row, 0, w->k, out);
}

bool weight_order(const struct weight *w, int32_t *out)
{
	int32_t groups = w->k / w->group;
	int32_t *next = xcalloc((size_t)groups, sizeof *next);
	bool is_even = true;
	for (int32_t k = 0; k < w->k; k++) {
		int32_t g = w->group_of[k], at = next[g]++;
		is_even &= at < w->group;
		if (is_even)
			out[g * w->group + at] = k;
	}
	free(next);
	return is_even; /* no group has more than its share of K, so all are equal */
}

size_t weight_row_bytes(const struct weight *w)
{
	size_t k = (size_t)w->k, block = (size_t)quant_block(w->quant);
	return block ? k / block * quant_block_bytes(w->quant)
		     : k * (size_t)quant_bits(w->quant) / 8;
}

size_t weight_bytes(const struct weight *w)
{
	size_t n = (size_t)w->n, k = (size_t)w->k, bits = (size_t)quant_bits(w->quant);
	if (quant_block(w->quant))
		return n * weight_row_bytes(w);
	size_t total = n * k * bits / 8;
	if (!w->scales)
		return total;
	size_t n_groups = DIV_UP(k, (size_t)w->group);
	size_t rows = w->group_n ? DIV_UP(n, (size_t)w->group_n) : n;
	size_t per_word = 32 / bits;
	total += rows * n_groups * dtype_bytes(w->scale_type);
	if (w->zero_points)
		total += DIV_UP(n, per_word) * n_groups * sizeof(uint32_t);
	if (w->group_of || w->order)
		total += k * sizeof *w->group_of;
	if (w->in_scale)
		total += k * sizeof *w->in_scale;
	return total;
}

/* --- opening -------------------------------------------------------------- */

static bool is_plain(const struct quant_want *w)
{
	const char *packed = formats[w->choice.quant].packed;
	const struct tensor *t = quant_find(w, "weight");
	return !w->choice.is_packed ||
	       (t && dtype_is_one_of(t->dtype, quant_floats) &&
		(strcmp(packed, "weight") == 0 || !quant_find(w, packed)));
}

/* In a checkpoint of FP8, a tensor of bytes whose type is not FP8 has two FP4 numbers in each
 * byte. */
static bool is_fp4(enum quant q, const struct tensor *t)
{
	static const enum dtype bytes[] = {DTYPE_I8, DTYPE_U8, DTYPE_F4, DTYPE_COUNT};
	return q == QUANT_FP8 && t && dtype_is_one_of(t->dtype, bytes);
}

/* A GGUF file may store a factor for a tensor. Only blocks of NVFP4 use one; elsewhere it must
 * be 1. */
static enum status check_factor(const struct quant_want *w, enum quant q, double factor,
				struct fail *fail)
{
	if (factor == 0 || factor == 1 || q == QUANT_NVFP4_BLOCK)
		return OK;
	return fail_set(fail, E_UNSUPPORTED, "%s: tensor %s.scale is %g, and a factor of %s is "
			"not supported", tensors_dir(w->tensors), w->name, factor,
			quant_name(q));
}

static enum status open_blocks(const struct quant_want *w, struct weight *out,
			       struct fail *fail)
{
	enum status st = quant_blocks_open(w, out, fail);
	return st == OK ? check_factor(w, out->quant, out->global_scale, fail) : st;
}

static enum status open_plain(const struct quant_want *w, struct weight *out,
			      struct fail *fail)
{
	double factor = 0;
	enum status st = quant_plain_open(w, out, fail);
	if (st == OK)
		st = quant_factor(w, &factor, fail);
	return st == OK ? check_factor(w, out->quant, factor, fail) : st;
}

enum status quant_open(const struct quant_want *w, struct weight *out,
		       struct fail *fail)
{
	const struct tensor *t = quant_find(w, "weight");
	if (t && t->dtype == DTYPE_BLOCKS) /* the tensor itself names its block format */
		return open_blocks(w, out, fail);
	if (is_plain(w))
		return open_plain(w, out, fail);
	if (is_fp4(w->choice.quant, t))
		return quant_mxfp4_open(w, out, fail);
	if (w->part && w->part->step > 1 && w->choice.quant != QUANT_MXFP4)
		return fail_set(fail, E_UNSUPPORTED, "%s: rows of two weights in turn in "
				"%s are not supported", w->name,
				quant_name(w->choice.quant));
	return formats[w->choice.quant].open(w, out, fail);
}

bool quant_is_weight(const struct tensors *ts, const char *name)
{
	return quant_numbers(ts, name);
}

const struct tensor *quant_numbers(const struct tensors *ts, const char *name)
{
	static const char *const suffixes[] = {"weight", "weight_packed", "qweight", "W_q"};
	const struct tensor *t = NULL;
	char full[256];
	for (size_t i = 0; !t && i < ARRAY_LEN(suffixes); i++) {
		snprintf(full, sizeof full, "%s.%s", name, suffixes[i]);
		t = tensors_find(ts, full);
	}
	return t;
}

enum quant quant_of_tensor(const struct tensor *t, const struct quant_choice *c,
			   int64_t *out_n_weights)
{
	if (t->dtype == DTYPE_BLOCKS) {
		*out_n_weights = (int64_t)(t->n_bytes / quant_block_bytes(t->quant)) *
				 quant_block(t->quant);
		return t->quant;
	}
	const char *dot = strrchr(t->name, '.');
	const char *suffix = dot ? dot + 1 : t->name;
	enum quant q = c->quant;
	bool holds = c->is_packed && (strcmp(suffix, formats[q].packed) == 0 ||
				      (formats[q].alias &&
				       strcmp(suffix, formats[q].alias) == 0));
	if (holds && is_fp4(q, t))
		q = QUANT_MXFP4;
	size_t n = strlen(suffix), tail = strlen("_blocks");
	holds |= c->is_packed && q == QUANT_MXFP4 && n > tail &&
		 strcmp(suffix + n - tail, "_blocks") == 0;
	bool is_plain = !c->is_packed || !strstr(suffix, "scale");
	if (dtype_is_one_of(t->dtype, quant_floats) && is_plain) {
		q = quant_plain(t->dtype);
		holds = true;
	}
	*out_n_weights = 0;
	if (holds)
		*out_n_weights = (int64_t)t->n_bytes * 8 / quant_bits(q);
	return q;
}
