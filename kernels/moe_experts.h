/* SPDX-License-Identifier: Apache-2.0
 *
 * The chosen experts at work:
 *   y[t] += sum_u weight[t][u] * down_e (silu(gate_e x[t]) * (up_e x[t])),
 *   e = id[t][u]
 * Source: modeling_qwen3_moe.py of Hugging Face Transformers, Qwen3MoeExperts.
 */
#pragma once
#include <stddef.h>

#include "model/blocks.h"

/* The experts of one layer, on the device, all of one shape and format. */
struct experts {
	int32_t n;                   /* E */
	const struct weight *gate;   /* host array (E) of (F, D) */
	const struct weight *up;     /* host array (E) of (F, D) */
	const struct weight *down;   /* host array (E) of (D, F) */
	const void *device;          /* the backend's own table of them, or NULL */
};

struct moe_experts_args {
	int32_t n_tok, n_used;
	const void *x;         /* (T, D) act */
	const int32_t *id;     /* (T, U), those of one token different */
	const float *weight;   /* (T, U) f32 */
	const struct experts *experts;
	void *h;               /* (T, U, F) act, work memory */
	int32_t *work;         /* moe_experts_work(T, U, E) int32, work memory */
	float *y;              /* (T, D) f32, added to */
};

/* Room to sort the T * U pairs of token and expert by expert: the pairs, each
 * expert's share rounded up to a block of at most 64, the experts of the blocks,
 * and E + 1 offsets. */
static inline size_t moe_experts_work(int32_t n_tok, int32_t n_used, int32_t n_experts)
{
	return 2 * ((size_t)n_tok * (size_t)n_used + 64 * (size_t)n_experts) +
	       (size_t)n_experts + 1;
}

void moe_experts_ref(const struct moe_experts_args *a);
