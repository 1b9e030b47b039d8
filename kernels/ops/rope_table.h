/* SPDX-License-Identifier: Apache-2.0
 *
 * The angles of a step, once for all layers: table[t][i] = scale times cos and sin of
 * position[t] * inv_freq[i], in double until the last rounding: at position
 * 100,000 a float32 angle is off by 0.004. Su et al., RoFormer, 2021, eq. 15;
 * plain RoPE has inv_freq[i] = theta^(-2i/K).
 */
#pragma once
#include "model/formats/blocks.h"

struct rope_table_args {
	int32_t n_tok, n_freq;
	const int32_t *position; /* (T) */
	const double *inv_freq;  /* (n_freq) f64, radians a position */
	float *table;            /* (T, n_freq, 2) f32: cos, sin */
	double scale;            /* f64; 1 but for yarn of a part of a head */
};

void rope_table_ref(const struct rope_table_args *a);
