/* SPDX-License-Identifier: Apache-2.0
 *
 * GLM-5.3-Flash. Several residual streams, as in DeepSeek-V4 (parts/streams.c); at the end their
 * mean. Most layers have Kimi delta attention. The others have latent attention in which nothing
 * rotates, to the pools of positions that an indexer chooses; a layer may see what the one before
 * it chose. The first layers are dense, the others have grouped experts and a shared one. The
 * activation of all of them has a limit. Source: modeling_glm5_next.py of Hugging Face
 * Transformers.
 */
#include "engine/family.h"

#include <math.h>

static void glm5_next_model(struct graph *g)
{
	const struct model_config *c = g->c;
	g->streams.count = c->streams.count;
	g->streams.n_iters = c->streams.iters;
	g->streams.eps = c->streams.eps;
	g->streams.has_plain_end = true;
}

static void glm5_next_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	if (c->is_linear[i]) {
		l->delta = family_delta(g, DELTA_KDA);
	} else {
		l->mla = (struct mla){
			.n_heads = c->n_heads, .q_lora = c->q_lora, .kv_lora = c->mla.kv_lora,
			.nope_dim = c->mla.nope_dim, .v_dim = c->mla.v_dim, .eps = c->mla.eps,
			.scale = (float)(1 / sqrt(c->head_dim)), .rope_scale = 1};
		l->indexer = (struct indexer){
			.n_heads = c->index.is_shared[i] ? 0 : c->index.heads, .dim = c->index.dim,
			.budget = c->index.budget, .ratio = c->index.ratio, .q_lora = c->q_lora,
			.is_pooled = true, .eps = 1e-6f}; /* no setting says it */
	}
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	l->experts.is_hidden = true;
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status glm5_next_run(struct graph *g, const struct layer *l,
				 const struct graph_step *s, struct fail *fail)
{
	/* n (T, D) = norm of a sum of the streams (T, S, D); x (T, D) = 0 */
	PART(streams_enter, .part = STREAMS_MIXER, .norm = l->norms[NORM_MIXER]);
	if (l->delta.kind == DELTA_KDA) {
		/* x += Wout (norm(y) * sigmoid(z)), y (T, H, V) of Kimi delta attention */
		PART_OF(kda_run, delta_run, .norm = NULL);
	} else {
		/* q (T, H, nope) = Wqb norm(Wqa n), kv (T, kv_lora) = Wkva n */
		PART(mla_project, .norm = NULL);
		/* y (T, H, v) = attention to latent keys of chosen pools, and of the last one */
		PART(mla_see, .index = &l->indexer);
		/* x += Wo y */
		PART(mla_out, .next = NULL);
	}
	/* the streams, mixed with each other, each += its weight times x */
	TRY(streams_leave(g, s, fail));

	PART(streams_enter, .part = STREAMS_MLP, .norm = l->norms[NORM_MLP]);
	/* x += the chosen experts by their weights, and the shared one; or a dense part */
	if (l->experts.n)
		PART(moe_run);
	else
		PART(mlp_run, .m = &l->mlp);
	return streams_leave(g, s, fail);
}

static enum status glm5_next_replay(struct graph *g, const struct layer *l,
				    const struct engine_replay *r, const struct graph_ids *ids,
				    struct fail *fail)
{
	return l->delta.kind == DELTA_KDA ? kda_replay(g, l, r, ids, fail) : OK;
}

const struct family family_glm5_next = {
	.norms = {TWO_NORMS}, .model = glm5_next_model, .layer = glm5_next_layer,
	.begin = streams_begin, .run = glm5_next_run, .end = streams_end,
	.replay = glm5_next_replay, .no_int8_kv = "it has latent attention (MLA)"};
