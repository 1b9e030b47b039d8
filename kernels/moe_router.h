/* SPDX-License-Identifier: Apache-2.0
 *
 * Which experts see a token: logits = W x, p = softmax over all E experts; the U
 * largest p are chosen, the largest first, the lower id of equals; their weights
 * are p, divided by their sum where norm_topk. Always U different ids in 0..E-1,
 * whatever the logits. Source: modeling_qwen3_moe.py of Hugging Face Transformers,
 * Qwen3MoeTopKRouter.
 */
#pragma once
#include <stdbool.h>

#include "model/blocks.h"

#define MOE_ROUTER_MAX_EXPERTS 4096

struct moe_router_args {
	int32_t n_tok, n_used;
	bool norm_topk;
	const void *x;               /* (T, D) act */
	const struct weight *router; /* (E, D), E <= MOE_ROUTER_MAX_EXPERTS */
	float *logits;               /* (T, E) f32, work memory */
	int32_t *id;                 /* (T, U) */
	float *weight;               /* (T, U) f32 */
};

void moe_router_ref(const struct moe_router_args *a);
