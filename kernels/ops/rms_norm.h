/* SPDX-License-Identifier: Apache-2.0
 *
 * x += add (where given), then y = x / sqrt(mean(x^2) + eps) * weight, over each
 * row. Zhang and Sennrich, Root Mean Square Layer Normalization, 2019, eq. 4.
 */
#pragma once
#include "model/formats/blocks.h"

struct rms_norm_args {
	int32_t n_tok, dim;
	float eps;
	float *x;            /* (T, D) f32; changed where add is given */
	const void *add;     /* (T, D) act, or NULL */
	const float *weight; /* (D) f32 */
	void *y;             /* (T, D) act */
};

void rms_norm_ref(const struct rms_norm_args *a);
