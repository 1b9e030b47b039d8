/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/sigmoid_gate.h"

#include <math.h>

void sigmoid_gate_ref(const struct sigmoid_gate_args *a)
{
	float *y = a->y;
	for (int32_t t = 0; t < a->n_tok; t++)
		for (int32_t c = 0; c < a->dim; c++, y++) {
			double g = ((const float *)a->gate.p)[head_view_at(&a->gate, t, c)];
			*y = (float)(*y / (1 + exp(-g)));
		}
}
