/* SPDX-License-Identifier: Apache-2.0
 *
 * Each head through a matrix of its own. The matrices lie in one weight W (H * pitch,
 * K): head h has rows h * pitch + first .. + n - 1, as W_h (n, K). For each token
 *   y_h = W_h x_h, or transposed: y_h = W_h^T x_h
 * So the products of MLA's heads are absorbed: the query is multiplied by the key part
 * of kv_b_proj instead of every key of the cache, and the weighted sum of the cache by
 * its value part. DeepSeek-V2, 2024, section 2.1.
 */
#pragma once
#include <stdbool.h>

#include "model/formats/blocks.h"

struct head_linear_args {
	int32_t n_tok, n_heads;       /* T, H */
	const struct weight *w;       /* (H * pitch, K), any format */
	int32_t pitch, first, n;
	bool is_transposed;
	const void *x;                /* (T, H, x_pitch) act: K elements, or n */
	int32_t x_pitch;
	void *y;                      /* (T, H, y_pitch) act: n elements, or K */
	int32_t y_pitch;
};

void head_linear_ref(const struct head_linear_args *a);
