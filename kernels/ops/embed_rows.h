/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedding, which starts the residual stream: x[t] = scale * table[token[t]].
 */
#pragma once
#include "model/formats/blocks.h"

struct embed_rows_args {
	int32_t n_tok;
	const struct weight *table; /* (V, D), any format */
	const int32_t *token;       /* (T), 0..V-1 */
	float *x;                   /* (T, D) f32 */
	float scale;                /* 1 leaves the rows unchanged */
};

void embed_rows_ref(const struct embed_rows_args *a);
