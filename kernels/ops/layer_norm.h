/* SPDX-License-Identifier: Apache-2.0
 *
 * y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over each row, where var is the mean
 * of squares of x - mean(x). Ba et al., Layer Normalization, 2016, eq. 4.
 */
#pragma once
#include "model/formats/blocks.h"

struct layer_norm_args {
	int32_t n_tok, dim;
	float eps;
	int32_t n_weights;   /* vectors of weights: row t takes vector t % n_weights. 0 is like 1 */
	const float *x;      /* (T, D) f32 */
	const float *weight; /* (n_weights, D) f32 */
	const float *bias;   /* (D) f32, or NULL */
	void *y;             /* (T, D) act */
};

void layer_norm_ref(const struct layer_norm_args *a);
