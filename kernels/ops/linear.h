/* SPDX-License-Identifier: Apache-2.0
 *
 * y = W x + bias for up to LINEAR_MAX_OUT weights at one input: q, k and v, or gate
 * and up, are one launch. What comes before and behind it may be asked for with it, with
 * the bits that the operations one after the other give:
 *   norm  first this rms_norm; its y is x
 *   act   two outputs, gate and up, of N and act: then y of the first = act(gate) up
 *         (act_mul); y of the second is work memory
 * Which of these a kernel does along with the product is the backend's choice: what it
 * cannot fuse it queues as the operation of that name.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/rms_norm.h"
#include "model/formats/activation.h"
#include "model/formats/blocks.h"

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
	const struct rms_norm_args *norm; /* host, or NULL */
	const struct activation *act;     /* host, or NULL */
};

void linear_ref(const struct linear_args *a);
