/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "model/quant.h"

void weight_decode(const struct weight *w, int32_t n0, int32_t n1, float *out)
{
	assert(0 <= n0 && n0 <= n1 && n1 <= w->n);
	for (int32_t row = n0; row < n1; row++, out += w->k) {
		if (w->quant == QUANT_INT4)
			quant_ct_decode(w, row, out);
		else
			quant_plain_decode(w, row, out);
	}
}

size_t weight_bytes(const struct weight *w)
{
	size_t n = (size_t)w->n, k = (size_t)w->k;
	size_t total = n * k * (size_t)quant_bits(w->quant) / 8;
	if (!w->scales)
		return total;
	size_t n_groups = k / (size_t)w->group;
	total += n * n_groups * dtype_bytes(w->scale_type);
	if (w->zero_points)
		total += (n + 7) / 8 * n_groups * sizeof(uint32_t);
	return total;
}

static bool is_one_of(enum dtype t, const enum dtype *types)
{
	while (*types != DTYPE_COUNT && *types != t)
		types++;
	return *types == t;
}

enum status quant_tensor(const struct quant_want *w, const char *suffix,
			 int64_t rows, int64_t cols, const enum dtype *types,
			 const struct tensor **out, struct fail *fail)
{
	char name[256];
	snprintf(name, sizeof name, "%s%s", w->name, suffix);
	const struct tensor *t = tensors_find(w->tensors, name);
	if (!t)
		return fail_set(fail, E_MISSING, "%s: tensor %s is missing",
				tensors_dir(w->tensors), name);
	if (!is_one_of(t->dtype, types))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is %s, not %s",
				t->file, name, dtype_name(t->dtype),
				dtype_name(types[0]));
	if (t->n_dims != 2 || t->dim[0] != rows || t->dim[1] != cols) {
		long long a = t->n_dims > 0 ? t->dim[0] : 0;
		long long b = t->n_dims > 1 ? t->dim[1] : 0;
		return fail_set(fail, E_FORMAT, "%s: tensor %s has %d dimensions "
				"(%lld, %lld…), the model needs (%lld, %lld)", t->file,
				name, t->n_dims, a, b, (long long)rows,
				(long long)cols);
	}
	*out = t;
	return OK;
}
