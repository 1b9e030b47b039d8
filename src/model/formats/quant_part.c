/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and checks the tensors of a weight.
 *
 * Some checkpoints hold all experts of a layer in one tensor. Gate and up of an expert,
 * which share their input, may also be in one tensor: one after the other, or with rows
 * in alternation. This code makes a view of one such part, for any format. The first
 * dimension selects the expert. The second is cut in the proportion of the weight's rows
 * to all rows; scales and zero points of row groups have the same proportion. The
 * remaining dimensions form a row.
 */
#include <math.h>
#include <stdio.h>

#include "model/formats/quant.h"

const enum dtype quant_floats[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32, DTYPE_COUNT};

bool dtype_is_one_of(enum dtype t, const enum dtype *types)
{
	while (*types != DTYPE_COUNT && *types != t)
		types++;
	return *types == t;
}

bool quant_has(const struct tensors *ts, const char *name, const char *suffix)
{
	char full[256];
	snprintf(full, sizeof full, "%s.%s", name, suffix);
	return tensors_find(ts, full);
}

const struct tensor *quant_find(const struct quant_want *w, const char *suffix)
{
	static const char weight[] = "weight";
	char name[256];
	snprintf(name, sizeof name, "%s.%s", w->name, suffix);
	const struct tensor *t = tensors_find(w->tensors, name);
	if (t || !w->part || strncmp(suffix, weight, strlen(weight)) != 0)
		return t;
	snprintf(name, sizeof name, "%s%s", w->name, suffix + strlen(weight));
	return tensors_find(w->tensors, name);
}

/* A view of all rows of one expert in tensor t: (rows, ...). Without experts: a view of t. */
static enum status cut_expert(const struct quant_want *w, const struct tensor *t,
			      struct tensor *out, struct fail *fail)
{
	const struct quant_part *p = w->part;
	*out = *t;
	if (!p->n_experts)
		return OK;
	if (t->n_dims < 1 || t->dim[0] != p->n_experts)
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not of %d experts",
				t->file, t->name, p->n_experts);
	out->n_dims--;
	memmove(out->dim, out->dim + 1, sizeof out->dim - sizeof *out->dim);
	out->n_bytes /= (size_t)p->n_experts;
	out->data = (const char *)t->data + out->n_bytes * (size_t)p->expert;
	return OK;
}

static void cut_rows(const struct quant_want *w, bool is_numbers, struct tensor *t)
{
	const struct quant_part *p = w->part;
	int64_t rows = t->n_dims ? t->dim[0] : 1;
	if (is_numbers && p->is_transposed) {
		if (t->n_dims != 2 || rows != w->k || t->dim[1] != p->n_rows)
			return; /* quant_tensor reports the wrong shape */
		t->data = (const char *)t->data +
			  (size_t)p->first * dtype_bytes(t->dtype);
		t->dim[0] = w->n;
		t->dim[1] = w->k;
		return;
	}
	if (rows == 0 || rows * w->n % p->n_rows || rows * p->first % p->n_rows)
		return;
	size_t row_bytes = t->n_bytes / (size_t)rows;
	int64_t first = rows * p->first / p->n_rows;
	t->dim[0] = rows * w->n / p->n_rows;
	t->data = (const char *)t->data + row_bytes * (size_t)first;
	t->n_bytes = row_bytes * (size_t)t->dim[0];
	for (; t->n_dims > 2; t->n_dims--) /* merge (rows, groups, bytes of a group) into rows */
		t->dim[1] *= t->dim[t->n_dims - 1];
}

enum status quant_tensor_typed(const struct quant_want *w, const char *suffix,
			       const enum dtype *types, const struct tensor **out,
			       struct fail *fail)
{
	const struct tensor *t = quant_find(w, suffix);
	if (!t)
		return fail_set(fail, E_MISSING, "%s: tensor %s.%s is missing",
				tensors_dir(w->tensors), w->name, suffix);
	if (!dtype_is_one_of(t->dtype, types))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is %s, not %s",
				t->file, t->name, dtype_name(t->dtype),
				dtype_name(types[0]));
	*out = t;
	if (!w->part)
		return OK;
	struct tensor *view = &w->views->at[w->views->n++];
	enum status st = cut_expert(w, t, view, fail);
	if (st == OK)
		cut_rows(w, strcmp(suffix, "weight") == 0, view);
	*out = view;
	return st;
}

enum status quant_tensor(const struct quant_want *w, const char *suffix,
			 int64_t rows, int64_t cols, const enum dtype *types,
			 const struct tensor **out, struct fail *fail)
{
	const struct tensor *t;
	enum status st = quant_tensor_typed(w, suffix, types, &t, fail);
	if (st != OK)
		return st;
	bool is_row = t->n_dims == 1 && rows == 1 && t->dim[0] == cols;
	/* t has a matrix for each head; taken together they are one matrix of all rows. */
	bool is_stack = !w->part && t->n_dims == 3 && t->dim[2] == cols &&
			t->dim[0] > 0 && rows % t->dim[0] == 0 &&
			t->dim[1] == rows / t->dim[0];
	if (!is_row && !is_stack && (t->n_dims != 2 || t->dim[0] != rows || t->dim[1] != cols)) {
		char shape[TENSOR_MAX_DIMS * 22 + 1] = "";
		for (int i = 0, n = 0; i < t->n_dims; i++)
			n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%lld", i ? ", " : "",
				      (long long)t->dim[i]);
		return fail_set(fail, E_FORMAT, "%s: tensor %s has the shape (%s), the model "
				"needs (%lld, %lld)%s", t->file, t->name, shape, (long long)rows,
				(long long)cols, w->part ? " an expert" : "");
	}
	*out = t;
	return OK;
}

enum status quant_factor(const struct quant_want *w, double *out, struct fail *fail)
{
	char name[256];
	snprintf(name, sizeof name, "%s.scale", w->name);
	const struct tensor *t = tensors_find(w->tensors, name);
	int32_t n = w->part && w->part->n_experts ? w->part->n_experts : 1;
	*out = 0;
	if (!t || !tensors_gguf(w->tensors)) /* outside GGUF, HQQ uses the name X.scale for other
					      * numbers */
		return OK;
	if (t->dtype != DTYPE_F32 || t->n_bytes != (size_t)n * sizeof(float))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not %d numbers in f32",
				t->file, t->name, n);
	float f;
	memcpy(&f, (const float *)t->data + (n > 1 ? w->part->expert : 0), sizeof f);
	if (!(f > 0) || !isfinite(f))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is %g, not above 0", t->file,
				t->name, (double)f);
	*out = (double)f;
	return OK;
}

enum status quant_groups(const struct quant_want *w, const char *suffix, int32_t group,
			 const int32_t **out, struct fail *fail)
{
	static const enum dtype words[] = {DTYPE_I32, DTYPE_COUNT};
	const struct tensor *t;
	*out = NULL;
	if (!quant_has(w->tensors, w->name, suffix))
		return OK;
	enum status st = quant_tensor_typed(w, suffix, words, &t, fail);
	if (st != OK)
		return st;
	if (t->n_dims != 1 || t->dim[0] != w->k)
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not a vector of %d",
				t->file, t->name, w->k);
	const int32_t *groups = t->data;
	for (int32_t k = 0; k < w->k; k++) {
		if (groups[k] < 0 || groups[k] >= w->k / group)
			return fail_set(fail, E_FORMAT, "%s: tensor %s has group %d at "
					"%d, of %d", t->file, t->name, groups[k], k,
					w->k / group);
		if (groups[k] != k / group)
			*out = groups;
	}
	return OK;
}
