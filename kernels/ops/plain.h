/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on rows that compute little:
 *
 *   fill_words  y[i] = value
 *   scale_rows  y[t, d] = scale[t] x[t, d]
 *   to_act      y[i] = x[i], in the type of activations. A number that is too large becomes
 *               infinite, as in rms_norm
 */
#pragma once
#include "model/formats/blocks.h"

struct fill_words_args {
	int32_t n;
	int32_t value; /* bits of each word */
	void *y;       /* (n) words of 32 bits */
};

struct scale_rows_args {
	int32_t n_tok, dim;
	const float *scale; /* (T) f32 */
	const void *x;      /* (T, D) act */
	void *y;            /* (T, D) act; may be x */
};

struct to_act_args {
	int32_t n_tok, dim;
	const float *x; /* (T, D) f32 */
	void *y;        /* (T, D) act */
};

void fill_words_ref(const struct fill_words_args *a);
void scale_rows_ref(const struct scale_rows_args *a);
void to_act_ref(const struct to_act_args *a);
