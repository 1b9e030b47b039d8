/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V4. What each part computes, with S = hyper_n residual streams x[s] of D numbers,
 * all of which begin as the token's embedding:
 *
 *   a part p, the mixer and then the mlp: engine/hyper.c, kernels/ops/hyper.h
 *     pre, post, comb = gates of all streams;  in = norm(sum_s pre[s] x[s])
 *     x[s] = post[s] p(in) + sum_j comb[j][s] x[j]
 *   the mixer is attention to a window and to compressed keys (engine/mixer_compress.c)
 *   the mlp is experts, chosen by the root of softplus and a bias, or in the first layers by
 *     the token alone; and a shared expert (mlp.c)
 *   at the end: one sum of the streams more, a norm and the output head
 *
 * The layer that guesses is not read: it takes all streams of a token, not a hidden state.
 *
 * Source: modeling_deepseek_v4.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

const struct arch arch_deepseek_v4 = {
	.mixer = &mixer_compress, .norms = {TWO_NORMS}, .mlp = {"mlp.gate", "mlp.shared_experts"}};
