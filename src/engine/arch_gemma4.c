/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 4, text: as Gemma 3, with heads of other sizes in the layers that see all. The last
 * layers may read keys and values of those before them (E2B, E4B), each layer may read an
 * embedding of the token (layer_embed.c), and experts may stand beside the dense part
 * (26B-A4B). Source: modeling_gemma4.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_gemma4 = {
	.mixer = &mixer_attention,
	.norms = {[NORM_MIXER] = "input_layernorm",
		  [NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP] = "pre_feedforward_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm",
		  [NORM_DENSE_POST] = "post_feedforward_layernorm_1",
		  [NORM_EXPERTS] = "pre_feedforward_layernorm_2",
		  [NORM_EXPERTS_POST] = "post_feedforward_layernorm_2"},
	.mlp = {"router.proj", "mlp.shared_experts"}};
