/* SPDX-License-Identifier: Apache-2.0
 *
 * Caps logits smoothly: x = cap * tanh(x / cap). Source: modeling_gemma2.py of Hugging Face
 * Transformers, final_logit_softcapping.
 */
#pragma once
#include "model/formats/blocks.h"

struct logits_cap_args {
	int32_t n_rows, n_vocab;
	float cap; /* above 0 */
	float *x;  /* (R, V) f32; changed in place */
};

void logits_cap_ref(const struct logits_cap_args *a);
