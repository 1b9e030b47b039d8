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

/* -0 keeps the bits of every number that is added to it. */
static void begin(const struct lora_add_args *a, const struct lora_out *o)
{
	size_t n = (size_t)a->n_tok * (size_t)o->n;
	for (size_t i = 0; i < n && o->is_new; i++)
		((float *)o->y)[i] = -0.f;
}

static void add_one(const struct lora_add_args *a, const struct lora_out *o, int32_t t, int32_t h)
{
	const struct lora_part *p = &o->part[a->adapter[t]];
	size_t row = (size_t)t * (size_t)lora_add_heads(a) + (size_t)h;
	size_t x_pitch = (size_t)(a->heads.n ? a->heads.x_pitch : a->n_in);
	size_t y_pitch = (size_t)(a->heads.n ? a->heads.y_pitch : o->n);
	size_t columns = (size_t)lora_add_columns(a), rows = (size_t)lora_add_rows(a, o);
	size_t a_at = (size_t)(h * a->heads.a_step), b_at = (size_t)(h * a->heads.b_step);
	const float *x = (const float *)a->x + row * x_pitch;
	float *y = (float *)o->y + row * y_pitch;
	double *low = xcalloc((size_t)p->rank + 1, sizeof *low);
	for (int32_t r = 0; r < p->rank; r++)
		for (int32_t k = 0; k < a->n_in; k++)
			low[r] += number(p, p->a, (size_t)r * columns + a_at + (size_t)k) *
				  (double)x[k];
	for (int32_t n = 0; n < o->n; n++) {
		double sum = 0;
		for (int32_t r = 0; r < p->rank; r++)
			sum += low[r] * number(p, p->b, (size_t)r * rows + b_at + (size_t)n);
		y[n] = (float)(y[n] + (double)a->scale[t] * p->scale * sum);
	}
	free(low);
}

void lora_add_ref(const struct lora_add_args *a)
{
	for (int i = 0; i < a->n_out; i++)
		begin(a, &a->out[i]);
	for (int32_t t = 0; t < a->n_tok; t++)
		for (int i = 0; i < a->n_out; i++)
			for (int32_t h = 0; h < lora_add_heads(a); h++)
				if (a->adapter[t] >= 0 && a->out[i].part)
					add_one(a, &a->out[i], t, h);
}
