/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplies each head by its own matrix. One weight W (H * pitch, K) holds all matrices:
 * W_h (n, K) of head h is rows h * pitch + first .. h * pitch + first + n - 1. For each
 * token
 *
 *   y_h = W_h x_h, or transposed: y_h = W_h^T x_h
 *
 * This absorbs the projections of MLA. The query is multiplied by the key part of
 * kv_b_proj, instead of each key in the cache. The weighted sum of the cache is
 * multiplied by the value part. DeepSeek-V2, 2024, section 2.1.
 */
#pragma once
#include <stdbool.h>

#include "model/formats/blocks.h"

struct head_linear_args {
	int32_t n_tok, n_heads;       /* T, H */
	const struct weight *w;       /* (H * pitch, K), any format */
	int32_t pitch, first, n;
	bool is_transposed;
	const void *x;                /* (T, H, x_pitch) act: K elements a head; transposed: n */
	int32_t x_pitch;
	void *y;                      /* (T, H, y_pitch) act: n elements a head; transposed: K */
	int32_t y_pitch;
};

void head_linear_ref(const struct head_linear_args *a);
