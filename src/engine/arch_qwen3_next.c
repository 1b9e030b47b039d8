/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3-Next and Qwen3.5, dense and with experts: gated delta nets, and every fourth
 * layer (or as the config lists them) attention with a gate of its output; experts with
 * a shared one that a sigmoid weighs. Source: modeling_qwen3_next.py, modeling_qwen3_5.py
 * and modeling_qwen3_5_moe.py of Hugging Face Transformers (of the models with vision the
 * text part: of text alone, its three rows of positions are one).
 */
#include "engine/arch.h"

const struct arch arch_qwen3_next = {
	.mixer = &mixer_attention, .linear_mixer = &mixer_delta,
	.norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_expert"}};
