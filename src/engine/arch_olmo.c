/* SPDX-License-Identifier: Apache-2.0
 *
 * OLMo 2, OLMo 3 and EXAONE 4: the two parts of a layer read the residual stream without a norm,
 * and their outputs are normalised. Sources, of Hugging Face Transformers: modeling_olmo2.py,
 * modeling_olmo3.py and modeling_exaone4.py.
 */
#include "engine/arch.h"

const struct arch arch_olmo = {
	.mixer = &mixer_attention,
	.norms = {[NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm"}};
