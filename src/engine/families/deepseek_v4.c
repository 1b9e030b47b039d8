/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V4. What each part computes, with S = hyper_n residual streams x[s] of D numbers,
 * all of which begin as the token's embedding:
 *
 *   a part p, the mixer and then the mlp: parts/streams.c, kernels/ops/hyper.h
 *     pre, post, comb = gates of all streams;  in = norm(sum_s pre[s] x[s])
 *     x[s] = post[s] p(in) + sum_j comb[j][s] x[j]
 *   the mixer is attention to a window and to compressed keys (parts/compressed.c)
 *   the mlp is experts, chosen by the root of softplus and a bias, or in the first layers by
 *     the token alone; and a shared expert (parts/moe.c)
 *   at the end: one sum of the streams more, a norm and the output head
 *
 * The MTP layer is not read: it takes all streams of a token, not a hidden state.
 *
 * Source: modeling_deepseek_v4.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void deepseek_v4_model(struct graph *g)
{
	const struct model_config *c = g->c;
	g->streams.count = c->streams.count;
	g->streams.n_iters = c->streams.iters;
	g->streams.eps = c->streams.eps;
}

static void deepseek_v4_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	bool is_fixed = c->compress.is_hashed && c->compress.is_hashed[i];
	l->compressed = (struct compressed){
		.n_heads = c->n_heads, .head_dim = c->head_dim, .q_lora = c->q_lora,
		.o_groups = c->compress.o_groups, .o_lora = c->compress.o_lora, .window = c->window,
		.n_freq = c->n_rot / 2, .i_rope = c->rope_of[i], .ratio = c->compress.of[i],
		.index_ratio = c->index.ratio, .heavy_ratio = c->compress.heavy_ratio,
		.index_heads = c->index.heads, .index_dim = c->index.dim,
		.index_budget = c->index.budget};
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	l->experts.is_root = l->experts.is_hidden = true;
	l->experts.is_fixed = is_fixed;
	l->experts.has_choice_bias = !is_fixed;
}

static enum status deepseek_v4_run(struct graph *g, const struct layer *l,
				   const struct graph_step *s, struct fail *fail)
{
	/* n (T, D) = norm of a sum of the streams (T, S, D); x (T, D) = 0 */
	PART(streams_enter, .part = STREAMS_MIXER, .norm = l->norms[NORM_MIXER]);
	/* x += Wob Woa attention(q, k of the window, compressed k) */
	TRY(compressed_run(g, l, s, fail));
	/* the streams, mixed with each other, each += its weight times x */
	TRY(streams_leave(g, s, fail));

	PART(streams_enter, .part = STREAMS_MLP, .norm = l->norms[NORM_MLP]);
	/* x += the experts, chosen or fixed by the token, by their weights; and the shared one */
	PART(moe_run);
	return streams_leave(g, s, fail);
}

const struct family family_deepseek_v4 = {
	.norms = {TWO_NORMS}, .model = deepseek_v4_model, .layer = deepseek_v4_layer,
	.begin = streams_begin, .run = deepseek_v4_run,
	.end = streams_end, .no_int8_kv = "it has attention sinks"};
