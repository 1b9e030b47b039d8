/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch arguments of moe_router.hip beside its weight, and the rule by which experts are
 * chosen. C for the host, C++ for the kernel.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif
#include "kernels/linear/fused_norm.h"

enum {
	MOE_ROUTER_WAVES = 4,
	/* moe_router_tile, for prompts with f32: */
	MOE_ROUTER_TILE_TOK = 8,    /* tokens of a workgroup */
	MOE_ROUTER_TILE_EACH = 4,   /* experts of a wave; times TOK it is the lanes of a wave */
	MOE_ROUTER_TILE_K = 2048    /* elements of each token in LDS at a time */
};

/* Like in struct moe_router_args; device addresses. */
struct moe_router_rule {
	const float *logit_bias;         /* (E) added to logits, or NULL */
	const float *expert_scale;       /* (E) factors of the weights, or NULL */
	const float *bias;               /* (E) added to the scores that choose; read with
					  * is_sigmoid, where it may be NULL, and with is_shifted.
					  * n_groups to scale: only with is_sigmoid */
	int32_t n_groups, n_groups_used;
	float scale;
	uint32_t is_sigmoid, is_shifted, norm_topk, is_root;
	int32_t filler; /* tests/lint/check-padding */
	/* fixed: (V, U) experts of each token id, or NULL; token: (T) ids */
	const int32_t *fixed, *token;
};

struct moe_router_launch {
	const uint16_t *x;        /* (T, D) f16 */
	float *logits;            /* (T, E) */
	int32_t *id;              /* (T, U) */
	float *weight;            /* (T, U) */
	uint32_t *arrived;        /* (T) workgroups finished; zero before and after. Not for
				   * prompts */
	struct fused_norm norm;   /* norm to apply to x first */
	int32_t n_tok, n_used;
	uint32_t in_eights;       /* with a norm, f16 or bf16: sums of moe_sum.h. D is a multiple
				   * of 8 */
	int32_t filler; /* tests/lint/check-padding */
	uint64_t *sums;           /* moe_route.hip: (E), zero before and after */
	struct moe_router_rule rule;
};

/* Bytes of LDS to choose U of E experts. */
#define MOE_CHOICE_KEYS(n_experts) (((n_experts) + 3) / 4 * 4) /* for 16-byte alignment */
#define MOE_CHOICE_LDS(n_experts, n_used) \
	((2 * MOE_CHOICE_KEYS(n_experts) + 2 * (n_used)) * 4)
/* Bytes of LDS of moe_router.hip: x, each element of x_bytes, then the choice. x_bytes: 4 with
 * in_eights, else 2. */
#define MOE_ROUTER_LDS(dim, x_bytes, n_experts, n_used) \
	(((dim) * (x_bytes) + 15) / 16 * 16 + MOE_CHOICE_LDS(n_experts, n_used))
/* The widest D for sums of moe_sum.h. */
#define MOE_SUM_MAX_DIM 8192
/* Bytes of LDS for a choice, then the logits: moe_route.hip, where the product's LDS was. */
#define MOE_ROUTE_LDS(n_experts, n_used) \
	((MOE_CHOICE_LDS(n_experts, n_used) + 15) / 16 * 16 + (n_experts) * 4)
/* Bytes of LDS of moe_router_tile: x. */
#define MOE_ROUTER_TILE_LDS (MOE_ROUTER_TILE_TOK * MOE_ROUTER_TILE_K * 2)
