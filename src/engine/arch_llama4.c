/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama 4, text (Scout, Maverick): attention to chunks in the layers that rotate, the others see
 * all, and scale queries up at late positions; heads of q and k are normalised without weights.
 * Experts with a shared one, in all layers or every second. The router's weight multiplies what
 * an expert reads. Source: modeling_llama4.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_llama4 = {
	.mixer = &mixer_attention, .norms = {TWO_NORMS},
	.mlp = {"mlp.router", "mlp.shared_expert"}};
