/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses each token's experts. logits = W x (+ logit_bias). The U experts with the
 * largest logits are chosen, the largest first; of equals the lower id first. Their
 * weights are p = softmax(logits) over all E experts, or over the chosen U if norm_topk.
 * There are always U different ids in 0..E-1, whatever the logits. A weight is multiplied by
 * expert_scale of its expert, where that is given. Source:
 * modeling_qwen3_moe.py of Hugging Face Transformers, Qwen3MoeTopKRouter. There the U
 * largest p are divided by their sum, which is the same unless p underflows.
 *
 * is_shifted, without is_sigmoid: p = softmax(logits), and experts are chosen by p + bias, in
 * the order of that. Weights are as above. Source: modeling_ernie4_5_moe.py,
 * Ernie4_5_MoeTopKRouter.
 *
 * is_sigmoid: p = sigmoid(logits), and experts are chosen by p + bias. The experts form
 * n_groups equal groups by id. A group's score is the sum of its two largest p + bias.
 * Only experts of the n_groups_used best groups can be chosen. Weights are p, divided by
 * their sum if norm_topk, times scale. Source: DeepSeek-V3 Technical Report, 2024,
 * section 2.1.2. Without a bias, and with one group, they are chosen by their logits, whose
 * sigmoids may be equal. Source: modeling_llama4.py, Llama4Router.
 *
 * is_root, with is_sigmoid: p = sqrt(log(1 + exp(logits))). fixed: a table has the experts of
 * each token id, and nothing is chosen. Source: modeling_deepseek_v4.py, DeepseekV4TopKRouter
 * and DeepseekV4HashRouter.
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
	/* n_groups, n_groups_used, scale, is_root and fixed are read only with it */
	bool is_sigmoid;
	int32_t n_groups, n_groups_used; /* host; needs U <= n_groups_used * E / n_groups */
	float scale;
	const float *bias;           /* (E) f32, or NULL; read with is_shifted too */
	const float *logit_bias;     /* (E) f32, or NULL; used without is_sigmoid too */
	const struct rms_norm_args *norm; /* host; norm to do first, whose y is x; or NULL */
	const float *expert_scale;   /* (E) f32, or NULL */
	bool is_shifted, is_root;
	const int32_t *fixed;        /* (V, U), different within a row; or NULL */
	const int32_t *token;        /* (T) token ids; read with fixed */
};

void moe_router_ref(const struct moe_router_args *a);
/* The two steps of moe_router_ref after the logits: choose sets id, weigh sets weight. x
 * and logit_bias are not read. */
void moe_router_ref_choose(const struct moe_router_args *a);
void moe_router_ref_weigh(const struct moe_router_args *a);
