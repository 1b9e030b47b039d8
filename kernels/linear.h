/* SPDX-License-Identifier: Apache-2.0
 *
 * y = W x + bias for up to LINEAR_MAX_OUT weights at one input: q, k and v, or gate
 * and up, are one launch.
 */
#pragma once
#include <stdbool.h>

#include "model/blocks.h"

#define LINEAR_MAX_OUT 4

struct linear_out {
	const struct weight *w; /* (N, K), any format */
	const float *bias;      /* (N) f32, or NULL */
	void *y;                /* (T, N): f32 where is_f32 or adds, else act */
	bool is_f32;
	bool adds;              /* y += instead of y =, for the residual stream */
};

struct linear_args {
	int32_t n_tok;
	const void *x; /* (T, K) act */
	int n_out;     /* 1..LINEAR_MAX_OUT, all of the same K */
	struct linear_out out[LINEAR_MAX_OUT];
};

void linear_ref(const struct linear_args *a);
