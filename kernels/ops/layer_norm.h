/* SPDX-License-Identifier: Apache-2.0
 *
 * y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over each row, where var is the mean
 * of squares of x - mean(x). Ba et al., Layer Normalization, 2016, eq. 4. For vision towers.
 */
#pragma once
#include "model/formats/blocks.h"

struct layer_norm_args {
	int32_t n_tok, dim;
	float eps;
	const float *x;      /* (T, D) f32 */
	const float *weight; /* (D) f32 */
	const float *bias;   /* (D) f32 */
	void *y;             /* (T, D) act */
};

void layer_norm_ref(const struct layer_norm_args *a);
