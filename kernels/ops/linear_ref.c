/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/linear.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/ops/act_mul.h"

static void one_out(const struct linear_args *a, const struct linear_out *o)
{
	size_t n_in = (size_t)o->w->k, n_out = (size_t)o->w->n;
	float *row = xmalloc(n_in * sizeof *row);
	for (size_t n = 0; n < n_out; n++) {
		weight_decode(o->w, (int32_t)n, (int32_t)n + 1, row);
		for (size_t t = 0; t < (size_t)a->n_tok; t++) {
			const float *x = (const float *)a->x + t * n_in;
			float *y = (float *)o->y + t * n_out + n;
			double sum = o->bias ? o->bias[n] : 0;
			for (size_t k = 0; k < n_in; k++)
				sum += (double)row[k] * x[k];
			*y = (float)(o->adds ? *y + sum : sum);
		}
	}
	free(row);
}

void linear_ref(const struct linear_args *a)
{
	if (a->norm)
		rms_norm_ref(a->norm);
	for (int i = 0; i < a->n_out; i++)
		one_out(a, &a->out[i]);
	if (!a->act)
		return;
	void *y = a->out[0].y;
	act_mul_ref(&(struct act_mul_args){.n_tok = a->n_tok, .dim = a->out[0].w->n,
					   .act = *a->act, .gate = y, .up = a->out[1].y, .y = y});
}
