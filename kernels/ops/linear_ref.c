/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/linear.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/ops/act_mul.h"

enum { ROWS = 4 }; /* of W at once: a sum alone waits for each of its additions */

/* sum[i] += row i of w (ROWS, n) · x (n), each in the order of its columns. */
static void add_dots(const float *w, const float *x, size_t n, double *sum)
{
	double a = sum[0], b = sum[1], c = sum[2], d = sum[3];
	for (size_t k = 0; k < n; k++) {
		a += (double)w[k] * x[k];
		b += (double)w[n + k] * x[k];
		c += (double)w[2 * n + k] * x[k];
		d += (double)w[3 * n + k] * x[k];
	}
	sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}

static void one_out(const struct linear_args *a, const struct linear_out *o)
{
	size_t n_in = (size_t)o->w->k, n_out = (size_t)o->w->n;
	float *rows = xcalloc(ROWS * n_in, sizeof *rows);
	for (size_t n = 0; n < n_out; n += ROWS) {
		size_t n_rows = MIN(n_out - n, (size_t)ROWS);
		weight_decode(o->w, (int32_t)n, (int32_t)(n + n_rows), rows);
		for (size_t t = 0; t < (size_t)a->n_tok; t++) {
			float *y = (float *)o->y + t * n_out + n;
			double sum[ROWS] = {0};
			for (size_t i = 0; i < n_rows && o->bias; i++)
				sum[i] = o->bias[n + i];
			add_dots(rows, (const float *)a->x + t * n_in, n_in, sum);
			for (size_t i = 0; i < n_rows; i++)
				y[i] = (float)(o->adds ? y[i] + sum[i] : sum[i]);
		}
	}
	free(rows);
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
