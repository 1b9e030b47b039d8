/* SPDX-License-Identifier: Apache-2.0
 *
 * Hunyuan, dense and with experts beside a shared one: heads of q and k are rotated, then
 * normalised. Sources: modeling_hunyuan_v1_dense.py and modeling_hunyuan_v1_moe.py of
 * Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_hunyuan = {
	.mixer = &mixer_attention, .norms = {TWO_NORMS}, .mlp = {"mlp.gate.wg", "mlp.shared_mlp"}};
