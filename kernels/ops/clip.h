/* SPDX-License-Identifier: Apache-2.0
 *
 * y = min(max(x, low), high), element by element. Vision towers use it on the inputs and outputs
 * of matrices that were trained with such limits. Source: modeling_gemma4.py of Hugging Face
 * Transformers, Gemma4ClippableLinear.
 */
#pragma once
#include <stdbool.h>

#include "model/formats/blocks.h"

struct clip_args {
	int32_t n_tok, dim;
	float low, high;
	bool is_f32;   /* x and y are f32, else act */
	const void *x; /* (T, F) act or f32 */
	void *y;       /* (T, F) of the same type; may be x */
};

void clip_ref(const struct clip_args *a);
