/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 3, text: four norms a layer; five layers with a window, which rotate by a rope
 * of their own, before each that sees all; gelu; scaled embeddings. Source:
 * modeling_gemma3.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_gemma3 = {
	.mixer = &mixer_attention,
	.norms = {[NORM_MIXER] = "input_layernorm",
		  [NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP] = "pre_feedforward_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm"}};
