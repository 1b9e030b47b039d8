/* SPDX-License-Identifier: Apache-2.0
 *
 * M, the stored matrix, may be the Kronecker product of a small matrix and Sylvester's, with
 * a sign for each row: M[i][j] = s[i] A[i / L][j / L] S[i % L][j % L]. Those signs are not
 * stored. But N[i][j] = M[i][j] M[i][0] is such a product without signs, since column 0 of S
 * is 1. Its own small matrix is every L-th number of every L-th row. All of N is compared.
 */
#include "model/formats/turn_make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/formats/blocks.h"

enum { MAX_ORDER = 256 }; /* a small matrix is no larger */

bool turn_source_is_same(const struct turn_source *a, const struct turn_source *b)
{
	return a->n == b->n && a->weight == b->weight && a->perm == b->perm &&
	       a->is_transposed == b->is_transposed && a->is_scaled == b->is_scaled;
}

static int64_t row_of(const struct turn_source *s, int32_t i)
{
	int64_t at;
	if (!s->perm)
		return i;
	memcpy(&at, (const char *)s->perm->data + (size_t)i * sizeof at, sizeof at);
	return at;
}

enum status turn_check(const struct turn_source *s, struct fail *fail)
{
	const struct tensor *w = s->weight, *p = s->perm;
	if (w && ((w->dtype != DTYPE_F32 && w->dtype != DTYPE_F16 && w->dtype != DTYPE_BF16) ||
		  w->n_dims != 2 || w->dim[0] != s->n || w->dim[1] != s->n))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not (%d, %d) numbers of F32, "
				"F16 or BF16", w->file, w->name, (int)s->n, (int)s->n);
	if (p && (p->dtype != DTYPE_I64 || p->n_dims != 1 || p->dim[0] != s->n))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not (%d) I64", p->file, p->name,
				(int)s->n);
	for (int32_t i = 0; p && i < s->n; i++)
		if (row_of(s, i) < 0 || row_of(s, i) >= s->n)
			return fail_set(fail, E_FORMAT, "%s: tensor %s has a number that is not "
					"below %d", p->file, p->name, (int)s->n);
	return OK;
}

static float sylvester(int32_t i, int32_t j)
{
	return __builtin_parity((unsigned)(i & j)) ? -1 : 1;
}

/* M[i][j] */
static float at(const struct turn_source *s, int32_t i, int32_t j)
{
	int64_t row = row_of(s, i), column = row_of(s, j);
	if (!s->weight)
		return sylvester((int32_t)row, (int32_t)column);
	return blocks_float(s->weight->data, s->weight->dtype,
			    (size_t)row * (size_t)s->n + (size_t)column);
}

/* Is N the product of its small matrix, of this order, and Sylvester's? */
static bool is_product(const struct turn_source *s, int32_t order)
{
	int32_t line = s->n / order;
	for (int32_t i = 0; i < s->n; i++) {
		int32_t first = i - i % line;
		float sign = at(s, i, 0), sign_of_first = at(s, first, 0);
		for (int32_t j = 0; j < s->n; j += line) {
			float small = at(s, first, j) * sign_of_first;
			if (small != 1 && small != -1)
				return false;
			for (int32_t k = 0; k < line; k++)
				if (at(s, i, j + k) * sign != small * sylvester(i % line, k))
					return false;
		}
	}
	return true;
}

/* The least order that will do; n if no fast transform does. */
static int32_t find_order(const struct turn_source *s)
{
	int32_t order = s->n;
	while (order % 2 == 0)
		order /= 2;
	for (; order <= MAX_ORDER && order < s->n; order *= 2)
		if (s->n / order <= TURN_MAX_LINE && is_product(s, order))
			return order;
	return s->n;
}

static float *floats(size_t n)
{
	return xmalloc(n * sizeof(float));
}

/* The small matrix, or all of M. */
static const float *make_base(const struct turn_source *s, int32_t order)
{
	int32_t line = s->n / order;
	float *base = floats((size_t)order * (size_t)order);
	for (int32_t i = 0; i < order; i++) {
		float sign = line > 1 ? at(s, i * line, 0) : 1;
		for (int32_t j = 0; j < order; j++) {
			int32_t to = s->is_transposed ? j * order + i : i * order + j;
			base[to] = sign * at(s, i * line, j * line);
		}
	}
	return base;
}

/* NULL: all signs are 1. */
static const float *make_signs(const struct turn_source *s)
{
	float *sign = floats((size_t)s->n);
	bool has_less = false;
	for (int32_t i = 0; i < s->n; i++) {
		sign[i] = at(s, i, 0);
		has_less |= sign[i] != 1;
	}
	if (has_less)
		return sign;
	free(sign);
	return NULL;
}

void turn_make(const struct turn_source *s, struct turn_matrix *out)
{
	int32_t order = find_order(s);
	*out = (struct turn_matrix){.n = s->n, .order = order,
			     .scale = s->is_scaled ? (float)(1 / sqrt(s->n)) : 1};
	if (order > 1 || order == s->n)
		out->base = make_base(s, order);
	const float *sign = order < s->n ? make_signs(s) : NULL;
	if (s->is_transposed)
		out->after = sign;
	else
		out->before = sign;
}

void turn_free(struct turn_matrix *t)
{
	free((void *)(uintptr_t)t->base);
	free((void *)(uintptr_t)t->before);
	free((void *)(uintptr_t)t->after);
}
