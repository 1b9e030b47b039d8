/* SPDX-License-Identifier: Apache-2.0
 *
 * FP8 (e4m3). A layer X with N outputs and K inputs has:
 *
 *   X.weight            F8_E4M3 (N, K)
 *   X.weight_scale_inv  float (ceil(N/R), ceil(K/C))  blocks of R by C, which ModelOpt
 *                       stores as (.., 1, .., 1), or
 *   X.weight_scale      float: blocks too, or one for each output, or one for all
 *   X.scale             DeepSeek-V4's name
 *
 * Scales of blocks may be powers of two in a byte ("ue8m0"), F8_E8M0 or U8. They become BF16,
 * exactly, when the checkpoint is opened. This costs little memory, because thousands of
 * weights share a scale.
 *
 * Both kinds of scale multiply the number; "inv" is the inverse of the factor used when
 * quantizing. Scales for rounding the layer's inputs are ignored: inputs are not rounded.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "model/formats/quant.h"

/* --- scales that are exponents ------------------------------------------------------ */

/* True if `name` is the scale of a weight in FP8. */
static bool is_scale(const struct tensors *ts, const char *name)
{
	/* Suffix of a scale's name, and of its weight's name. */
	static const struct {
		const char *scale, *weight;
	} ends[] = {{".weight_scale_inv", ".weight"}, {".weight_scale", ".weight"},
		    {".scale", ".weight"}, {"_scale_inv", ""}};
	char full[256];
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		if (!str_ends(str_of(name), str_of(ends[i].scale)))
			continue;
		size_t n = strlen(name) - strlen(ends[i].scale);
		snprintf(full, sizeof full, "%.*s%s", (int)n, name, ends[i].weight);
		const struct tensor *t = tensors_find(ts, full);
		if (t && t->dtype == DTYPE_F8_E4M3)
			return true;
	}
	return false;
}

void quant_fp8_exponents(struct tensors *ts)
{
	for (size_t i = 0; i < tensors_count(ts); i++) {
		struct tensor t = *tensors_at(ts, i);
		if ((t.dtype != DTYPE_F8_E8M0 && t.dtype != DTYPE_U8) || !is_scale(ts, t.name))
			continue;
		const uint8_t *from = t.data;
		uint16_t *to = tensors_alloc(ts, t.n_bytes * sizeof *to + 1);
		for (size_t k = 0; k < t.n_bytes; k++) {
			float f = blocks_e8m0(from[k]);
			uint32_t bits;
			memcpy(&bits, &f, sizeof bits);
			to[k] = (uint16_t)(bits >> 16);
		}
		t.dtype = DTYPE_BF16;
		t.data = to;
		t.n_bytes *= sizeof *to;
		t.is_made = true;
		tensors_replace(ts, i, &t);
	}
}

/* --- weights ------------------------------------------------------------------------ */

/* Open a scale tensor that has one number for all rows, or N numbers, in any shape. */
static enum status open_rows(const struct quant_want *w, const char *suffix,
			     const struct tensor **out, int32_t *group_n,
			     struct fail *fail)
{
	const struct tensor *t;
	enum status st = quant_tensor_typed(w, suffix, quant_floats, &t, fail);
	if (st != OK)
		return st;
	size_t n = t->n_bytes / dtype_bytes(t->dtype);
	bool is_row = t->n_dims > 1 && t->dim[0] != w->n; /* one scale per input? */
	if (n != 1 && (n != (size_t)w->n || is_row))
		return fail_set(fail, E_FORMAT, "%s: tensor %s has %zu numbers, the "
				"model needs 1 or one for each of %d outputs", t->file,
				t->name, n, w->n);
	*group_n = n == 1 ? w->n : 1;
	*out = t;
	return OK;
}

/* Open a scale for each block. ModelOpt's shape says where a block's rows and columns were. */
static enum status open_blocks(const struct quant_want *w, const char *suffix,
			       const struct tensor **out, struct fail *fail)
{
	int64_t rows = DIV_UP((int64_t)w->n, w->choice.group_n),
		cols = DIV_UP((int64_t)w->k, w->choice.group);
	enum status st = quant_tensor_typed(w, suffix, quant_floats, out, fail);
	const struct tensor *t = *out;
	if (st != OK)
		return st;
	if (!w->part && t->n_dims == 4 && t->dim[0] == rows && t->dim[1] == 1 &&
	    t->dim[2] == cols && t->dim[3] == 1)
		return OK;
	if (w->part)
		w->views->n--; /* quant_tensor makes this view again */
	return quant_tensor(w, suffix, rows, cols, quant_floats, out, fail);
}

enum status quant_fp8_open(const struct quant_want *w, struct weight *out,
			   struct fail *fail)
{
	static const enum dtype e4m3[] = {DTYPE_F8_E4M3, DTYPE_COUNT};
	const char *suffix = quant_find(w, "weight_scale_inv") ? "weight_scale_inv"
			     : quant_find(w, "scale")	      ? "scale"
							      : "weight_scale";
	int32_t group_n = w->choice.group_n;
	int32_t group = group_n ? w->choice.group : w->k;
	const struct tensor *q, *scale;
	enum status st = quant_tensor(w, "weight", w->n, w->k, e4m3, &q, fail);
	if (st == OK && group_n)
		st = open_blocks(w, suffix, &scale, fail);
	else if (st == OK)
		st = open_rows(w, suffix, &scale, &group_n, fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = QUANT_FP8, .n = w->n, .k = w->k,
			       .group = group, .group_n = group_n, .q = q->data,
			       .scales = scale->data, .scale_type = scale->dtype,
			       .name = q->name};
	return OK;
}

void quant_fp8_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		      float *out)
{
	const uint8_t *q = (const uint8_t *)w->q + (size_t)row * (size_t)w->k;
	size_t first = (size_t)(row / w->group_n) * (size_t)DIV_UP((int64_t)w->k, w->group);
	for (int32_t k = k0, end; k < k1; k = end) {
		float scale = blocks_float(w->scales, w->scale_type,
					   first + (size_t)(k / w->group));
		end = k1 - k < w->group - k % w->group ? k1
						       : k + w->group - k % w->group;
		for (int32_t i = k; i < end; i++)
			*out++ = blocks_e4m3(q[i]) * scale;
	}
}
