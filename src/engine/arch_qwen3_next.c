/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3-Next and Qwen3.5, dense and with experts.
 *
 * Layers are gated delta nets. Every fourth layer, or those that the config lists, is
 * attention whose output has a gate. Experts include a shared one, weighed by a
 * sigmoid. Models with vision run their text part: for text alone, their three rows of
 * positions are equal.
 *
 * Sources: modeling_qwen3_next.py, modeling_qwen3_5.py and modeling_qwen3_5_moe.py of
 * Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_qwen3_next = {
	.mixer = &mixer_attention, .linear_mixer = &mixer_delta,
	.norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_expert"}};
