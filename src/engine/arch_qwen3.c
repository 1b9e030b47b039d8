/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3, dense and with experts, and what it comes from: Llama, Mistral, Qwen2;
 * and GLM-4-MoE, which is close: its first layers are dense, the others have grouped
 * experts and a shared one. For text alone, the three rows of positions of Qwen3-Omni's thinker
 * and of Qwen3-VL are equal. Sources, of Hugging Face Transformers: the files modeling_*.py of
 * llama, mistral, qwen2, qwen3, qwen3_moe, qwen3_omni_moe, qwen3_vl, qwen3_vl_moe, glm4_moe,
 * mistral3, ministral3, seed_oss, granite, smollm3, phi3, mixtral, granitemoe and minimax_m2.
 */
#include "engine/arch.h"

const struct arch arch_qwen3 = {
	.mixer = &mixer_attention, .norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_experts"}};
