/* SPDX-License-Identifier: Apache-2.0
 *
 * How routers of trained models spread a text's tokens over experts. Some experts are chosen far
 * more often than others: the shares are lognormal, with EXPERT_ROUTING_SIGMA. Source: 35B-A3B
 * (Qwen3.6, 256 experts, of which a token uses 8) while it decodes. There 26 to 28 experts take
 * half of the uses, and the Gini coefficient of the uses is 0.65 (oRKLLM/ork-driver, "Exp 2026 06
 * 26 MoE Routing Skew"). Here 27 take 0.51, and the coefficient is 0.64. LFM2's is 0.44, which is
 * a sigma of 0.8. Thread: any.
 */
#pragma once
#include <stdint.h>

#define EXPERT_ROUTING_SIGMA 1.3

/* out (n_experts): the chance that a token uses the expert, ascending. The sum is n_used. */
void expert_routing_chances(int32_t n_experts, double n_used, double *out);
/* Expected number of blocks of `rows` pairs that n_tok tokens fill, each with n_used experts of
 * n_experts. *out_used: expected number of experts with pairs. */
double expert_routing_blocks(double n_tok, double n_used, int32_t n_experts, int32_t rows,
		      double *out_used);
