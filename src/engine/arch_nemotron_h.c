/* SPDX-License-Identifier: Apache-2.0
 *
 * Nemotron-H: layers of one part alone, which are state spaces of Mamba-2, attention without
 * rotation, dense parts, or experts beside a shared one. Feed-forward parts have no gate, and the
 * activation max(x, 0)^2. Source: modeling_nemotron_h.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_nemotron_h = {
	.mixer = &mixer_attention, .linear_mixer = &mixer_space,
	.norms = {[NORM_MIXER] = "norm", [NORM_MLP] = "norm"},
	.mlp = {"mlp.gate", "mlp.shared_experts"}};
