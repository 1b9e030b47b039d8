/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/silu_mul.h"

#include <math.h>

void silu_mul_ref(const struct silu_mul_args *a)
{
	const float *gate = a->gate, *up = a->up;
	float *y = a->y;
	for (size_t i = 0; i < (size_t)a->n_tok * (size_t)a->dim; i++)
		y[i] = (float)(gate[i] / (1 + exp(-(double)gate[i])) * up[i]);
}
