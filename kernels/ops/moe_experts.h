/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies the chosen experts:
 *
 *   y[t] += sum_u weight[t][u] * down_e (silu(gate_e x[t]) * (up_e x[t])),
 *   e = id[t][u]
 *
 * Source: modeling_qwen3_moe.py of Hugging Face Transformers, Qwen3MoeExperts.
 *
 * Options of a model (struct experts):
 *
 *   biases      gate_e x + gate_bias[e], and so on; down's bias is weighted too
 *   act         another activation of the biased products, in place of silu(g) * u
 *   a shared expert, used by every token, with its own width S, without bias and with
 *               silu: y[t] += s[t] * down (silu(gate x[t]) * (up x[t])), where
 *               s[t] = 1 / (1 + exp(-(shared_router x[t]))), or 1. Source:
 *               modeling_qwen3_next.py, Qwen3NextSparseMoeBlock. If the others have ACT_RELU or
 *               ACT_CLIPPED, the shared expert has it too.
 *
 * Adapters (struct moe_lora): each product of a routed expert becomes W x + s scale[t] B (A x), of
 * the adapter that row t has, before biases and the activation. Rows without an adapter, and
 * experts that it leaves as they are, keep their bits.
 */
#pragma once
#include <stddef.h>

#include "kernels/ops/lora_part.h"
#include "kernels/ops/moe_router.h"
#include "model/formats/activation.h"
#include "model/formats/blocks.h"

/* The experts of one layer, on the device, all of one shape and one format. */
struct experts {
	int32_t n;                   /* E: number of experts */
	const struct weight *gate;   /* host array (E) of (F, D) */
	const struct weight *up;     /* host array (E) of (F, D) */
	const struct weight *down;   /* host array (E) of (D, F) */
	const void *device;          /* the backend's table of the experts, or NULL */
	const float *gate_bias;      /* (E, F) f32; all three biases or none */
	const float *up_bias;        /* (E, F) f32 */
	const float *down_bias;      /* (E, D) f32 */
	struct activation act;
	/* Host pointers to weights from load_weight; each has its own format. NULL: no
	 * shared expert. shared_router (1, D) NULL: s = 1. */
	const struct weight *shared_gate, *shared_up; /* (S, D) */
	const struct weight *shared_down;             /* (D, S) */
	const struct weight *shared_router;
};

/* The activation of the shared expert. */
static inline struct activation experts_shared_act(const struct experts *ex)
{
	bool is_own = ex->act.kind == ACT_RELU || ex->act.kind == ACT_CLIPPED;
	return is_own ? ex->act : (struct activation){.kind = ACT_SILU};
}

/* A prediction of what the next layer with experts will choose: its router and norm, applied to the
 * input of this layer's router. It is for backends that read experts from a file. */
#define MOE_AHEAD_MAX_TOK 8
struct moe_ahead {
	struct moe_router_args router; /* the next layer's; it writes to arrays of its own */
	const struct experts *experts;
};

/* Places in a row of moe_lora.part. */
enum { MOE_LORA_GATE, MOE_LORA_UP, MOE_LORA_DOWN, MOE_LORA_PARTS };

/* What LoRA adapters add to routed experts. */
struct moe_lora {
	const struct lora_part *part; /* (adapters, E, MOE_LORA_PARTS) */
	const int32_t *adapter;       /* (T) index in part; -1: none */
	const float *scale;           /* (T) f32 */
	int32_t rank;                 /* the largest R of all adapters */
	float *low;                   /* (T, U, 2, rank) f32, work memory */
	float *high;                  /* (2, T, U, F) f32, work memory */
};

struct moe_experts_args {
	int32_t n_tok, n_used;
	const void *x;         /* (T, D) act */
	const int32_t *id;     /* (T, U), different within a token */
	const float *weight;   /* (T, U) f32 */
	const struct experts *experts;
	void *h;               /* (T, U, F) act, work memory */
	int32_t *work;         /* moe_experts_work(T, U, E) int32, work memory */
	float *y;              /* (T, D) f32, added to */
	void *shared_h;        /* (T, 2 S) act, work memory; NULL: no shared expert */
	float *shared_scale;   /* (T) f32, work memory; NULL: no shared router */
	/* Host. If not NULL, this moe_router comes first, and writes id and weight. */
	const struct moe_router_args *router;
	/* Host; NULL: no prediction. It changes no result, and is for at most MOE_AHEAD_MAX_TOK
	 * tokens. */
	const struct moe_ahead *ahead;
	const struct moe_lora *lora; /* host; NULL: no adapters */
};

/* Numbers of work memory to sort the T * U pairs (token, slot) by expert: the pairs, with
 * each expert's share rounded up to a block of at most 64; the blocks' experts; and E + 1
 * offsets. */
static inline size_t moe_experts_work(int32_t n_tok, int32_t n_used, int32_t n_experts)
{
	return 2 * ((size_t)n_tok * (size_t)n_used + 64 * (size_t)n_experts) +
	       (size_t)n_experts + 1;
}

void moe_experts_ref(const struct moe_experts_args *a);
