/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/logits_cap.h"

#include <math.h>

void logits_cap_ref(const struct logits_cap_args *a)
{
	for (size_t i = 0; i < (size_t)a->n_rows * (size_t)a->n_vocab; i++)
		a->x[i] = (float)(a->cap * tanh((double)a->x[i] / a->cap));
}
