/* SPDX-License-Identifier: Apache-2.0
 *
 * Which experts see a token: logits = W x (+ logit_bias); the U largest are chosen, the largest
 * first, the lower id of equals. Their weights are p = softmax(logits) over all E
 * experts, or over the chosen U where norm_topk. Always U different ids in 0..E-1,
 * whatever the logits. Source: modeling_qwen3_moe.py of Hugging Face Transformers,
 * Qwen3MoeTopKRouter, which takes the U largest p and divides them by their sum:
 * the same where p does not underflow.
 *
 * is_sigmoid: instead p = sigmoid(logits), and what is largest is p + bias. Experts
 * are in n_groups equal groups by id; only those in the n_groups_used best groups are
 * chosen from, a group being as good as the sum of its two largest p + bias. Weights
 * are p, where norm_topk over their sum, times scale. Source: DeepSeek-V3 Technical
 * Report, 2024, section 2.1.2.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/rms_norm.h"
#include "model/formats/blocks.h"

#define MOE_ROUTER_MAX_EXPERTS 4096

struct moe_router_args {
	int32_t n_tok, n_used;
	bool norm_topk;
	const void *x;               /* (T, D) act */
	const struct weight *router; /* (E, D), E <= MOE_ROUTER_MAX_EXPERTS */
	float *logits;               /* (T, E) f32, work memory */
	int32_t *id;                 /* (T, U) */
	float *weight;               /* (T, U) f32 */
	bool is_sigmoid;             /* what follows is read only then */
	int32_t n_groups, n_groups_used; /* U <= n_groups_used * E / n_groups */
	float scale;
	const float *bias;           /* (E) f32 */
	const float *logit_bias;     /* (E) f32, or NULL; both kinds */
	const struct rms_norm_args *norm; /* host: first this, whose y is x; or NULL */
};

void moe_router_ref(const struct moe_router_args *a);
/* Parts of it: id by logits; weight by logits and id. x and logit_bias are not read. */
void moe_router_ref_choose(const struct moe_router_args *a);
void moe_router_ref_weigh(const struct moe_router_args *a);
