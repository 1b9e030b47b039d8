/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3, dense and with experts, and what it comes from: Llama, Mistral, Qwen2;
 * and GLM-4-MoE, which is close: its first layers are dense, the others have grouped
 * experts and a shared one. Sources: modeling_llama.py, modeling_mistral.py,
 * modeling_qwen2.py, modeling_qwen3.py, modeling_qwen3_moe.py,
 * modeling_qwen3_omni_moe.py (the thinker: of text alone, its three rows of positions
 * are one) and modeling_glm4_moe.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_qwen3 = {
	.mixer = &mixer_attention, .norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_experts"}};
