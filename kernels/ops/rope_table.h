/* SPDX-License-Identifier: Apache-2.0
 *
 * The rope angles of a step, computed once for all layers: table[t][i] = scale times the
 * cosine and sine of position[t] * inv_freq[i]. The computation is in double until the
 * last rounding, because at position 100,000 a float32 angle is off by 0.004. Su et al.,
 * RoFormer, 2021, eq. 15; plain RoPE has inv_freq[i] = theta^(-2i/K).
 */
#pragma once
#include "model/formats/blocks.h"

struct rope_table_args {
	int32_t n_tok, n_freq;
	const int32_t *position; /* (T) */
	const double *inv_freq;  /* (n_freq) f64, radians per position */
	float *table;            /* (T, n_freq, 2) f32: cosine, sine */
	double scale;            /* f64; 1 except for yarn's attention factor */
};

void rope_table_ref(const struct rope_table_args *a);
