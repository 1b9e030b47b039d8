/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/plain.h"

void fill_words_ref(const struct fill_words_args *a)
{
	for (int32_t i = 0; i < a->n; i++)
		((int32_t *)a->y)[i] = a->value;
}

void scale_rows_ref(const struct scale_rows_args *a)
{
	const float *x = a->x;
	float *y = a->y;
	for (int32_t t = 0; t < a->n_tok; t++)
		for (int32_t d = 0; d < a->dim; d++) {
			size_t i = (size_t)t * (size_t)a->dim + (size_t)d;
			y[i] = (float)((double)a->scale[t] * x[i]);
		}
}

void to_act_ref(const struct to_act_args *a)
{
	float *y = a->y;
	for (size_t i = 0; i < (size_t)a->n_tok * (size_t)a->dim; i++)
		y[i] = a->x[i];
}
