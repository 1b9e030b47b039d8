/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/lora_add.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "model/formats/blocks.h"

static double number(const struct lora_part *p, const void *matrix, size_t i)
{
	static const enum dtype types[] = {
		[LORA_F32] = DTYPE_F32, [LORA_F16] = DTYPE_F16, [LORA_BF16] = DTYPE_BF16};
	return (double)blocks_float(matrix, types[p->type], i);
}

static void add_one(const struct lora_add_args *a, const struct lora_out *o, int32_t t)
{
	const struct lora_part *p = &o->part[a->adapter[t]];
	const float *x = (const float *)a->x + (size_t)t * (size_t)a->n_in;
	float *y = (float *)o->y + (size_t)t * (size_t)o->n;
	double *low = xcalloc((size_t)p->rank + 1, sizeof *low);
	for (int32_t r = 0; r < p->rank; r++)
		for (int32_t k = 0; k < a->n_in; k++)
			low[r] += number(p, p->a, (size_t)r * (size_t)a->n_in + (size_t)k) *
				  (double)x[k];
	for (int32_t n = 0; n < o->n; n++) {
		double sum = 0;
		for (int32_t r = 0; r < p->rank; r++)
			sum += low[r] * number(p, p->b, (size_t)r * (size_t)o->n + (size_t)n);
		y[n] = (float)(y[n] + (double)a->scale[t] * p->scale * sum);
	}
	free(low);
}

void lora_add_ref(const struct lora_add_args *a)
{
	for (int32_t t = 0; t < a->n_tok; t++)
		for (int i = 0; i < a->n_out; i++)
			if (a->adapter[t] >= 0 && a->out[i].part)
				add_one(a, &a->out[i], t);
}
