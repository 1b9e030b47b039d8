/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as plain numbers: <name>.weight (N, K) in F32, F16 or BF16. In a tensor of all
 * experts an expert may also be (K, N).
 */
#include "model/formats/quant.h"

static enum dtype dtype_of(enum quant q)
{
	return q == QUANT_F32 ? DTYPE_F32 : q == QUANT_F16 ? DTYPE_F16 : DTYPE_BF16;
}

enum status quant_plain_open(const struct quant_want *w, struct weight *out,
			     struct fail *fail)
{
	const struct tensor *t;
	enum status st = quant_tensor(w, "weight", w->n, w->k, quant_floats, &t,
				      fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = quant_plain(t->dtype), .n = w->n, .k = w->k,
			       .group = w->k, .q = t->data, .name = t->name,
			       .scale_type = t->dtype, .source = t->source,
			       .source_row = quant_made_row(t)};
	if (w->part && w->part->is_transposed) {
		out->row_step = w->part->step;
		out->k_step = w->part->n_rows;
	} else if (w->part && w->part->step > 1) {
		out->row_step = w->part->step;
	}
	return OK;
}

void quant_plain_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			float *out)
{
	enum dtype t = dtype_of(w->quant);
	size_t at = (size_t)row * (size_t)(w->row_step ? w->row_step : 1), step = 1;
	if (w->k_step)
		step = (size_t)w->k_step;
	else
		at *= (size_t)w->k;
	for (int32_t k = k0; k < k1; k++)
		*out++ = blocks_float(w->q, t, at + (size_t)k * step);
}
