/* SPDX-License-Identifier: Apache-2.0
 *
 * Muse Glimmer: embeddings are normalised, and so is what each part of a layer adds. Heads of q and
 * k are normalised without weights. Attention's output has a gate for each channel. Only layers
 * with a window rotate. Source: modeling_muse_glimmer.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void muse_glimmer_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	/* GGUF has weights: the factor of queries, and ones. */
	l->attention.norms = graph_layer_has(g, i, "self_attn.q_norm") ? HEADS_NORM : HEADS_ONES;
	l->attention.gate_span = 1;
	l->mlp = family_mlp(g);
}

static enum status muse_glimmer_alloc(struct graph *g, struct fail *fail)
{
	return graph_put_filled(g, 1, (size_t)g->dim, &g->own.ones, fail);
}

static enum status muse_glimmer_begin(struct graph *g, const struct graph_step *s,
				      struct fail *fail)
{
	int32_t t = s->b->n_tok, n = t * g->dim;

	/* x (T, D) = norm(x) */
	RUN(copy_words, .n = n, .x = (const int32_t *)(const void *)g->x,
	    .y = (int32_t *)(void *)g->part);
	RUN(fill_words, .n = n, .y = g->x);
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->part,
	    .weight = g->own.ones, .sum = g->x);
	return OK;
}

static enum status muse_glimmer_run(struct graph *g, const struct layer *l,
				    const struct graph_step *s, struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);

	/* q and its gates (T, H, K), k and v (T, G, K) = W norm(x) */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	TRY(attend_gate(g, l, s, fail));
	/* x (T, D) += norm(Wo (y * sigmoid(gate))) */
	PART(attend_out, .post = l->norms[NORM_MIXER_POST]);
	/* x += norm(Wdown (silu(Wgate norm(x)) * Wup norm(x))) */
	PART(mlp_run, .m = &l->mlp, .norm = &between, .post = l->norms[NORM_MLP_POST]);
	return OK;
}

const struct family family_muse_glimmer = {
	.norms = {[NORM_MIXER] = "input_layernorm",
		  [NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP] = "pre_feedforward_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm"},
	.layer = muse_glimmer_layer, .alloc = muse_glimmer_alloc, .begin = muse_glimmer_begin,
	.run = muse_glimmer_run};
