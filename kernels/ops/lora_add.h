/* SPDX-License-Identifier: Apache-2.0
 *
 * What LoRA adapters add beside linear, for up to LINEAR_MAX_OUT weights with the same input. Row
 * t has the adapter i = adapter[t], or none:
 *
 *   y[t] += scale[t] s_i B_i (A_i x[t])
 *
 * Rows without an adapter, and those whose adapter leaves the weight as it is, keep their bits. So
 * adapters may be mixed in a batch.
 *
 * Behind head_linear each head h has a matrix of its own, of which the adapter has a part:
 *
 *   y[t][h] += scale[t] s_i B_ih (A_ih x[t][h])
 *
 * A_ih is the columns of A_i from h a_step on, and B_ih the rows of B_i from h b_step on. A step of
 * 0: all heads share that matrix.
 *
 * Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021).
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/linear.h"
#include "kernels/ops/lora_part.h"

struct lora_out {
	const struct lora_part *part; /* of each adapter; NULL: none changes this weight */
	void *y;     /* (T, N): f32 if is_f32, else act */
	int32_t n;   /* N */
	bool is_f32;
	bool is_new; /* y is f32 and not there yet: what is added is stored, and -0 elsewhere */
};

/* Heads of x (T, H, x_pitch) and y (T, H, y_pitch), with K and N elements each. */
struct lora_heads {
	int32_t n;               /* H; 0: no heads. Else there is one output */
	int32_t x_pitch, y_pitch;
	int32_t a_step, b_step;
};

struct lora_add_args {
	int32_t n_tok, n_in; /* T, K */
	const void *x;       /* (T, K) act */
	struct lora_heads heads;
	int n_out;           /* 1..LINEAR_MAX_OUT */
	struct lora_out out[LINEAR_MAX_OUT];
	const int32_t *adapter; /* (T) index in each `part`; -1: none */
	const float *scale;     /* (T) f32 */
	int32_t rank;           /* the largest R of all adapters */
	float *low;             /* work: (T, n_out, rank) f32, or (T, H, rank) */
};

/* Heads, or one. */
static inline int32_t lora_add_heads(const struct lora_add_args *a)
{
	return a->heads.n ? a->heads.n : 1;
}

/* Columns of A; rows of B of an output. */
static inline int32_t lora_add_columns(const struct lora_add_args *a)
{
	return a->n_in + (lora_add_heads(a) - 1) * a->heads.a_step;
}
static inline int32_t lora_add_rows(const struct lora_add_args *a, const struct lora_out *o)
{
	return o->n + (lora_add_heads(a) - 1) * a->heads.b_step;
}

void lora_add_ref(const struct lora_add_args *a);
