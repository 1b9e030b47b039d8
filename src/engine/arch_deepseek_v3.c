/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V3: attention over a compressed key, first layers dense, then grouped experts
 * and a shared one. GLM-4.7-Flash is the same; DeepSeek-V3.2 sees what an indexer chooses.
 * Sources: modeling_deepseek_v3.py, modeling_glm4_moe_lite.py and modeling_deepseek_v32.py of
 * Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_deepseek_v3 = {
	.mixer = &mixer_mla, .norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_experts"}};
