/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/embed_rows.h"

void embed_rows_ref(const struct embed_rows_args *a)
{
	for (int32_t t = 0; t < a->n_tok; t++) {
		float *x = a->x + (size_t)t * (size_t)a->table->k;
		weight_decode(a->table, a->token[t], a->token[t] + 1, x);
		for (int32_t i = 0; i < a->table->k; i++)
			x[i] *= a->scale;
	}
}
