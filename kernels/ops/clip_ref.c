/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/clip.h"

void clip_ref(const struct clip_args *a)
{
	const float *x = a->x;
	float *y = a->y;
	for (size_t i = 0; i < (size_t)a->n_tok * (size_t)a->dim; i++)
		y[i] = x[i] < a->low ? a->low : x[i] > a->high ? a->high : x[i];
}
