/* SPDX-License-Identifier: Apache-2.0
 *
 * What LoRA adapters add behind linear, for up to LINEAR_MAX_OUT weights with the same input. Row
 * t has the adapter i = adapter[t], or none:
 *
 *   y[t] += scale[t] s_i B_i (A_i x[t])
 *
 * Rows without an adapter, and those whose adapter leaves the weight as it is, keep their bits. So
 * adapters may be mixed in a batch.
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
};

struct lora_add_args {
	int32_t n_tok, n_in; /* T, K */
	const void *x;       /* (T, K) act */
	int n_out;           /* 1..LINEAR_MAX_OUT */
	struct lora_out out[LINEAR_MAX_OUT];
	const int32_t *adapter; /* (T) index in each `part`; -1: none */
	const float *scale;     /* (T) f32 */
	int32_t rank;           /* the largest R of all adapters */
	float *low;             /* work: (T, n_out, rank) f32 */
};

void lora_add_ref(const struct lora_add_args *a);
