/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as numbers: <name>.weight (N, K) in F32, F16 or BF16.
 */
#include "model/quant.h"

static enum quant quant_of(enum dtype t)
{
	return t == DTYPE_F32 ? QUANT_F32 : t == DTYPE_F16 ? QUANT_F16 : QUANT_BF16;
}

static enum dtype dtype_of(enum quant q)
{
	return q == QUANT_F32 ? DTYPE_F32 : q == QUANT_F16 ? DTYPE_F16 : DTYPE_BF16;
}

enum status quant_plain_open(const struct quant_want *w, struct weight *out,
			     struct fail *fail)
{
	static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32,
					   DTYPE_COUNT};
	const struct tensor *t;
	enum status st = quant_tensor(w, ".weight", w->n, w->k, types, &t, fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = quant_of(t->dtype), .n = w->n, .k = w->k,
			       .group = w->k, .q = t->data, .name = t->name,
			       .scale_type = t->dtype};
	return OK;
}

void quant_plain_decode(const struct weight *w, int32_t row, float *out)
{
	enum dtype t = dtype_of(w->quant);
	for (int32_t i = 0; i < w->k; i++)
		out[i] = blocks_float(w->q, t, (size_t)row * (size_t)w->k + (size_t)i);
}
