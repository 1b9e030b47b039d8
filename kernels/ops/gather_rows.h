/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the rows of the residual stream whose logits are needed: y[r] = x[row[r]].
 */
#pragma once
#include "model/formats/blocks.h"

struct gather_rows_args {
	int32_t n_rows, dim;
	const float *x;     /* (T, D) f32 */
	const int32_t *row; /* (R), 0..T-1 */
	float *y;           /* (R, D) f32 */
};

void gather_rows_ref(const struct gather_rows_args *a);
