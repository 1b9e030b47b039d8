/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V3: attention over a compressed key, first layers dense, then grouped experts
 * and a shared one. Source: modeling_deepseek_v3.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_deepseek_v3 = {
	.mixer = &mixer_mla, .norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_experts"}};
