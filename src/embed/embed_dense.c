/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/embed_dense.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/formats/blocks.h"

enum { MAX_WIDTH = 1 << 16 };

static enum status read_floats(const struct tensor *t, size_t n, float **out,
			       struct fail *fail)
{
	if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16)
		return fail_set(fail, E_UNSUPPORTED, "%s: tensor %s is not in 16 or 32 bits",
				t->file, t->name);
	*out = xmalloc(n * sizeof **out);
	for (size_t i = 0; i < n; i++)
		(*out)[i] = blocks_float(t->data, t->dtype, i);
	return OK;
}

enum status embed_dense_read(const struct tensors *ts, const char *name, int32_t n_in,
			     struct embed_dense *out, struct fail *fail)
{
	char full[200];
	snprintf(full, sizeof full, "%s.weight", name);
	const struct tensor *w = tensors_find(ts, full);
	if (!w)
		return fail_at(fail, E_MISSING, full, "%s: tensor %s is missing",
			       tensors_dir(ts), full);
	if (w->n_dims != 2 || w->dim[1] != n_in || w->dim[0] < 1 || w->dim[0] > MAX_WIDTH)
		return fail_at(fail, E_FORMAT, full, "%s: tensor %s does not take %d numbers",
			       w->file, full, (int)n_in);
	*out = (struct embed_dense){.n_in = n_in, .n_out = (int32_t)w->dim[0]};
	enum status st = read_floats(w, (size_t)n_in * (size_t)out->n_out, &out->w, fail);
	snprintf(full, sizeof full, "%s.bias", name);
	const struct tensor *bias = tensors_find(ts, full);
	if (st != OK || !bias)
		return st;
	if (bias->n_dims != 1 || bias->dim[0] != out->n_out)
		return fail_at(fail, E_FORMAT, full, "%s: tensor %s is not a vector of %d",
			       bias->file, full, (int)out->n_out);
	return read_floats(bias, (size_t)out->n_out, &out->bias, fail);
}

void embed_dense_deinit(struct embed_dense *d)
{
	free(d->w);
	free(d->bias);
}

void embed_dense_run(const struct embed_dense *d, const float *x, float *y)
{
	for (int32_t o = 0; o < d->n_out; o++) {
		const float *w = d->w + (size_t)o * (size_t)d->n_in;
		double sum = d->bias ? (double)d->bias[o] : 0;
		for (int32_t i = 0; i < d->n_in; i++)
			sum += (double)w[i] * (double)x[i];
		y[o] = (float)(d->is_tanh ? tanh(sum) : sum);
	}
}
