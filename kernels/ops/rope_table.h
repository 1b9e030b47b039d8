/* SPDX-License-Identifier: Apache-2.0
 *
 * The rope angles of a step, computed once for all layers: table[t][i] = scale times the
 * cosine and sine of position[t] * inv_freq[i]. The computation is in double until the
 * last rounding, because at position 100,000 a float32 angle is off by 0.004. Su et al.,
 * RoFormer, 2021, eq. 15; plain RoPE has inv_freq[i] = theta^(-2i/K).
 *
 * axis: a token has three positions, of time, height and width, and pair i rotates by the one
 * that axis[i] names. Source: modeling_qwen3_vl.py of Hugging Face Transformers,
 * recomposition_frequencies.
 */
#pragma once
#include "model/formats/blocks.h"

struct rope_table_args {
	int32_t n_tok, n_freq;
	const int32_t *position; /* (T), or with axis (T, 3) */
	const double *inv_freq;  /* (n_freq) f64, radians per position */
	float *table;            /* (T, n_freq, 2) f32: cosine, sine */
	double scale;            /* f64; 1 except for yarn's attention factor */
	const int32_t *axis;     /* (n_freq) 0, 1 or 2; or NULL */
};

void rope_table_ref(const struct rope_table_args *a);
