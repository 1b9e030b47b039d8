/* SPDX-License-Identifier: Apache-2.0
 *
 * y *= 1 / (1 + exp(-gate)): gates attention's output by the gate that q_proj computes
 * beside the queries. Source: modeling_qwen3_next.py of Hugging Face Transformers,
 * Qwen3NextAttention.
 */
#pragma once
#include "kernels/ops/head_view.h"

struct sigmoid_gate_args {
	int32_t n_tok, dim;
	struct head_view gate; /* act, `dim` channels */
	void *y;               /* (T, dim) act */
};

void sigmoid_gate_ref(const struct sigmoid_gate_args *a);
