/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/turn_blocks.h"

/* R[i][j] without its scale. */
static double turn_element(const struct turn_matrix *r, int32_t i, int32_t j)
{
	int32_t line = r->n / r->order;
	double base = r->base ? r->base[i / line * r->order + j / line] : 1;
	bool is_less = __builtin_parity((unsigned)(i % line & j % line));
	return base * (is_less ? -1 : 1) * (r->before ? r->before[i] : 1) *
	       (r->after ? r->after[j] : 1);
}

void turn_blocks_ref(const struct turn_blocks_args *a)
{
	const struct turn_matrix *r = a->turn;
	size_t n = (size_t)r->n, n_blocks = (size_t)a->n_tok * (size_t)a->dim / n;
	for (size_t b = 0; b < n_blocks; b++) {
		const float *x = (const float *)a->x + b * n;
		float *y = (float *)a->y + b * n;
		for (int32_t j = 0; j < r->n; j++) {
			double sum = 0;
			for (int32_t i = 0; i < r->n; i++)
				sum += x[i] * turn_element(r, i, j);
			y[j] = (float)(sum * r->scale + (a->adds ? y[j] : 0));
		}
	}
}
