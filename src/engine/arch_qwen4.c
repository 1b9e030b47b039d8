/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen4-Exp (Qwen3.8-Flash-Next), its text. What each part computes, with S = hc_count
 * residual streams x[s] of D numbers, all of which begin as the token's embedding:
 *
 *   n-grams (layers of ple_layer_ids, first of all): engine/ngram.c
 *   a part p, the mixer and then the mlp: engine/hyper.c
 *     n[s] = norm(x[s]), each stream with its own weights
 *     u = sigmoid(Wup silu(Wdown n / S));  in = mean_s u[s] n[s]
 *     w = 2 sigmoid(Winject n / S);        x[s] += w[s] p(in)
 *   the mixer is a gated delta net whose gate is sigmoid(z) (mixer_delta.c); or attention
 *     with a gate (mixer_attention.c) to the positions that an indexer chooses
 *     (engine/indexer.c)
 *   the mlp is experts with a softmax router, and a shared expert (mlp.c)
 *   at the end: the same mean once more, with no norm behind it, and the output head
 *
 * Parts have no norms of their own. The layer that guesses is not read, since Transformers
 * does not define it. Nor is the vision tower.
 *
 * Source: modeling_qwen4_exp.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_qwen4 = {
	.mixer = &mixer_attention, .linear_mixer = &mixer_delta,
	.mlp = {"mlp.gate", "mlp.shared_expert"}};
