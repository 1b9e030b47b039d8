/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gather_rows.h"

void gather_rows_ref(const struct gather_rows_args *a)
{
	for (int32_t r = 0; r < a->n_rows; r++)
		for (int32_t d = 0; d < a->dim; d++)
			a->y[(size_t)r * (size_t)a->dim + (size_t)d] =
				a->x[(size_t)a->row[r] * (size_t)a->dim + (size_t)d];
}
