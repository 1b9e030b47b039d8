/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt-oss: a window in every other layer, attention sinks, and experts with biases and
 * a clamped activation in all. Source: modeling_gpt_oss.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_gpt_oss = {
	.mixer = &mixer_attention, .norms = {TWO_NORMS},
	.mlp = {"mlp.router", "mlp.shared_expert"}};
