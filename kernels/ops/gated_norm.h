/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x / sqrt(mean(x^2) + eps) * weight * silu(z), with the mean over each head of V
 * elements. Source: modeling_qwen3_next.py of Hugging Face Transformers,
 * Qwen3NextRMSNormGated.
 *
 * is_sigmoid: sigmoid(z) in the place of silu(z). Source: modeling_qwen4_exp.py.
 *
 * gates_first: x silu(z z_scale) takes the place of x, and no gate follows the norm. Each head has
 * weights of its own. Source: modeling_granitemoehybrid.py, GraniteMoeHybridRMSNormGated.
 * skips_norm: then there is no norm either, only its weights. Source: modeling_falcon_h1.py,
 * FalconH1Mixer.
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
	bool skips_norm;     /* only with gates_first */
	float z_scale;       /* 0: 1; only with gates_first */
};

void gated_norm_ref(const struct gated_norm_args *a);
