/* SPDX-License-Identifier: Apache-2.0
 *
 * y *= 1 / (1 + exp(-gate)), or with is_softplus y *= log(1 + exp(gate)): gates attention's
 * output. Sources: modeling_qwen3_next.py of Hugging Face Transformers, Qwen3NextAttention, and
 * modeling_laguna.py, LagunaAttention.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/head_view.h"

struct sigmoid_gate_args {
	int32_t n_tok, dim;
	int32_t span;          /* channels of y that one gate is for; it divides dim */
	struct head_view gate; /* act, dim / span channels */
	bool is_softplus;
	void *y;               /* (T, dim) act */
};

void sigmoid_gate_ref(const struct sigmoid_gate_args *a);
