/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/sigmoid_gate.h"

#include <math.h>

void sigmoid_gate_ref(const struct sigmoid_gate_args *a)
{
	float *y = a->y;
	for (int32_t t = 0; t < a->n_tok; t++)
		for (int32_t c = 0; c < a->dim; c++, y++) {
			const float *gates = a->gate.p;
			double g = gates[head_view_at(&a->gate, t, c / a->span)];
			*y = (float)(a->is_softplus ? *y * (fmax(g, 0) + log1p(exp(-fabs(g))))
						    : *y / (1 + exp(-g)));
		}
}
