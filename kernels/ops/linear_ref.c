/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/linear.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/ops/act_mul.h"
#include "kernels/ops/ref_dots.h"

static void one_out(const struct linear_args *a, const struct linear_out *o, const double *x)
{
	size_t n_in = (size_t)o->w->k, n_out = (size_t)o->w->n;
	float *rows = xmalloc(REF_ROWS * n_in * sizeof *rows);
	double *packed = xmalloc(REF_ROWS * n_in * sizeof *packed);
	for (size_t n = 0; n < n_out; n += REF_ROWS) {
		size_t n_rows = MIN(n_out - n, (size_t)REF_ROWS);
		weight_decode(o->w, (int32_t)n, (int32_t)(n + n_rows), rows);
		ref_pack(rows, n_rows, n_in, packed);
		for (size_t t = 0; t < (size_t)a->n_tok; t++) {
			float *y = (float *)o->y + t * n_out + n;
			double sum[REF_ROWS] = {0};
			for (size_t i = 0; i < n_rows && o->bias; i++)
				sum[i] = o->bias[n + i];
			ref_add(packed, 1, x + t * n_in, n_in, sum);
			for (size_t i = 0; i < n_rows; i++)
				y[i] = (float)(o->adds ? y[i] + sum[i] : sum[i]);
		}
	}
	free(packed);
	free(rows);
}

void linear_ref(const struct linear_args *a)
{
	if (a->norm)
		rms_norm_ref(a->norm);
	size_t n = (size_t)a->n_tok * (size_t)a->out[0].w->k;
	double *x = xmalloc((n + 1) * sizeof *x);
	for (size_t i = 0; i < n; i++)
		x[i] = ((const float *)a->x)[i];
	for (int i = 0; i < a->n_out; i++)
		one_out(a, &a->out[i], x);
	free(x);
	if (!a->act)
		return;
	void *y = a->out[0].y;
	act_mul_ref(&(struct act_mul_args){.n_tok = a->n_tok, .dim = a->out[0].w->n,
					   .act = *a->act, .gate = y, .up = a->out[1].y, .y = y});
}
