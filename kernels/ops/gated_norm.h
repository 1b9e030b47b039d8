/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x / sqrt(mean(x^2) + eps) * weight * silu(z), with the mean over each head of V
 * elements. Source: modeling_qwen3_next.py of Hugging Face Transformers,
 * Qwen3NextRMSNormGated.
 *
 * is_sigmoid: sigmoid(z) in the place of silu(z). Source: modeling_qwen4_exp.py.
 *
 * gates_first: x silu(z) takes the place of x, and no gate follows the norm. Each head has
 * weights of its own. Source: modeling_granitemoehybrid.py, GraniteMoeHybridRMSNormGated.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/head_view.h"

struct gated_norm_args {
	int32_t n_tok, n_heads, dim; /* T, H, V */
	float eps;
	const void *x;       /* (T, H, V) act */
	struct head_view z;  /* act, H * V channels */
	const float *weight; /* (V) f32; gates_first: (H, V) */
	void *y;             /* (T, H, V) act; may be x */
	bool gates_first;
	bool is_sigmoid;     /* not with gates_first */
};

void gated_norm_ref(const struct gated_norm_args *a);
