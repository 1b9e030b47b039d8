/* SPDX-License-Identifier: Apache-2.0
 *
 * Granite 4 hybrids: state spaces of Mamba-2, and attention without rotation in a few
 * layers; dense, or experts beside a shared one. Source: modeling_granitemoehybrid.py of
 * Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_granite_hybrid = {
	.mixer = &mixer_attention, .linear_mixer = &mixer_space,
	.norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_experts"}};
