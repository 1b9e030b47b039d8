/* SPDX-License-Identifier: Apache-2.0
 *
 * y = W x + bias for up to LINEAR_MAX_OUT weights with the same input: q, k and v, or
 * gate and up, are one launch. It can include the operations before and after, with the
 * bits of those operations in sequence:
 *
 *   norm  first this rms_norm; its y is x
 *   act   two outputs, gate and up, of equal N and type act: afterwards y of the first is
 *         act(gate) up (act_mul); y of the second is work memory
 *
 *   next  a router that reads a norm of y next (moe_router.h), where y is what one output adds
 *         to. The backend may do this router and its norm, or a part of them. The caller still
 *         queues the router, right behind, with the same arguments, and may not change y before
 *
 * A weight's groups may have their inputs in any order (struct weight.group_of).
 *
 * The backend decides which of these its kernel fuses. It queues the others as separate
 * operations.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/moe_experts.h"
#include "kernels/ops/rms_norm.h"
#include "model/formats/activation.h"
#include "model/formats/blocks.h"

#define LINEAR_MAX_OUT 4

struct linear_out {
	const struct weight *w; /* (N, K), any format */
	const float *bias;      /* (N) f32, or NULL */
	void *y;                /* (T, N): f32 if is_f32 or adds, else act */
	bool is_f32;
	bool adds;              /* y += in place of y =, for the residual stream */
};

struct linear_args {
	int32_t n_tok;
	const void *x; /* (T, K) act */
	int n_out;     /* 1..LINEAR_MAX_OUT, all of the same K */
	struct linear_out out[LINEAR_MAX_OUT];
	const struct rms_norm_args *norm; /* host; norm to do first, or NULL */
	const struct activation *act;     /* host; activation to do after, or NULL */
	const struct moe_router_args *next; /* host; or NULL */
};

void linear_ref(const struct linear_args *a);
