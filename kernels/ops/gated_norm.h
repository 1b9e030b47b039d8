/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x / sqrt(mean(x^2) + eps) * weight * silu(z), with the mean over each head of V
 * elements. Source: modeling_qwen3_next.py of Hugging Face Transformers,
 * Qwen3NextRMSNormGated.
 */
#pragma once
#include "kernels/ops/head_view.h"

struct gated_norm_args {
	int32_t n_tok, n_heads, dim; /* T, H, V */
	float eps;
	const void *x;       /* (T, H, V) act */
	struct head_view z;  /* act, H * V channels */
	const float *weight; /* (V) f32 */
	void *y;             /* (T, H, V) act; may be x */
};

void gated_norm_ref(const struct gated_norm_args *a);
