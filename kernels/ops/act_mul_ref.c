/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/act_mul.h"

#include "kernels/ops/act_mul_one.h"

void act_mul_ref(const struct act_mul_args *a)
{
	const float *gate = a->gate, *up = a->up;
	float *y = a->y;
	size_t dim = (size_t)a->dim;
	for (size_t i = 0; i < (size_t)a->n_tok * dim; i++)
		y[i] = (float)act_mul_one(&a->act, gate[i],
					  up[i / dim * act_mul_up_pitch(a) + i % dim]);
}
