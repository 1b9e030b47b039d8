/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/rope_table.h"

#include <math.h>

void rope_table_ref(const struct rope_table_args *a)
{
	for (int32_t t = 0; t < a->n_tok; t++) {
		float *row = a->table + (size_t)t * (size_t)a->n_freq * 2;
		for (int32_t i = 0; i < a->n_freq; i++) {
			int32_t p = a->axis ? a->position[3 * t + a->axis[i]]
					    : a->position[t];
			double angle = p * a->inv_freq[i];
			row[2 * i] = (float)(a->scale * cos(angle));
			row[2 * i + 1] = (float)(a->scale * sin(angle));
		}
	}
}
