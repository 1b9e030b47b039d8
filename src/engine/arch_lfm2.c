/* SPDX-License-Identifier: Apache-2.0
 *
 * LFM2, dense and with experts: short convolutions, and attention in the layers that the
 * config lists. Experts are routed by sigmoids, with a bias for the choice; the first layers are
 * dense. Sources: modeling_lfm2.py and modeling_lfm2_moe.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_lfm2 = {
	.mixer = &mixer_attention, .linear_mixer = &mixer_conv,
	.norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_experts"}};
