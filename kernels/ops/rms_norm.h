/* SPDX-License-Identifier: Apache-2.0
 *
 * x += add (where given), then y = x / sqrt(mean(x^2) + eps) * weight, over each row.
 * Where sum is given, sum += that in the place of y: the norm behind a layer's part,
 * whose output is x. x is lost then. Zhang and Sennrich, Root Mean Square Layer
 * Normalization, 2019, eq. 4.
 */
#pragma once
#include "model/formats/blocks.h"

struct rms_norm_args {
	int32_t n_tok, dim;
	float eps;
	float *x;            /* (T, D) f32; changed where add is given */
	const void *add;     /* (T, D) act, or NULL */
	const float *weight; /* (D) f32 */
	void *y;             /* (T, D) act; NULL: sum is given */
	float *sum;          /* (T, D) f32, not x; or NULL */
};

void rms_norm_ref(const struct rms_norm_args *a);
