/* SPDX-License-Identifier: Apache-2.0
 *
 * What n-grams add to S residual streams. A stream's key and query, both normalised, decide
 * how much it takes of the token's value:
 *
 *   g = key[s] . query[s] / sqrt(D);  g = sign(g) sqrt(max(|g|, 1e-6))
 *   gated[s] = sigmoid(g) value;  x[s] += gated[s]
 *
 * Source: modeling_qwen4_exp.py of Hugging Face Transformers, Qwen4ExpTextPLELayer.
 */
#pragma once
#include "model/formats/blocks.h"

struct ngram_gate_args {
	int32_t n_tok, n_streams, dim;
	const void *key, *query; /* (T, S, D) act */
	const float *value;      /* (T, D) f32 */
	float *gated;            /* (T, S, D) f32 */
	float *x;                /* (T, S, D) f32 */
};

void ngram_gate_ref(const struct ngram_gate_args *a);
