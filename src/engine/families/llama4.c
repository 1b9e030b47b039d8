/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama 4, text (Scout, Maverick): attention to chunks in the layers that rotate, the others see
 * all, and scale queries up at late positions; heads of q and k are normalised without weights.
 * Experts with a shared one, in all layers or every second. The router's weight multiplies what
 * an expert reads. Source: modeling_llama4.py of Hugging Face Transformers.
 */
#include "engine/family.h"

#include "base/alloc.h"

static void llama4_layer(const struct graph *g, int i, struct layer *l)
{
	struct attention *a = &l->attention;
	*a = family_attention(g, i);
	bool is_rotated = a->n_freq > 0;
	a->is_chunked = a->window > 0;
	a->has_attn_temp = !is_rotated;
	a->norms = g->c->llama4.has_norms && is_rotated ? HEADS_ONES : HEADS_PLAIN;
	l->experts = family_experts_and(g, i, "mlp.shared_expert");
	l->experts.router_name = "mlp.router";
	l->experts.has_choice_bias = false;
	l->experts.shared_is_apart = true;
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

/* in (T, D): what experts read. ones (T, U). */
static enum status llama4_alloc(struct graph *g, struct fail *fail)
{
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	TRY(graph_alloc(g, t * (size_t)g->dim * act, &g->own.in, fail));
	return graph_put_filled(g, 1, t * (size_t)MAX(g->c->n_experts_used, 1), &g->own.ones,
				fail);
}

/* Each token has one expert (config_llama4_read), so one weight. */
static enum status llama4_experts(struct graph *g, const struct layer *l,
				  const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args norm = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	int32_t t = s->b->n_tok;
	const struct moe_router_args router = moe_router(g, l, t, &norm);

	/* in (T, D) = n times the weight of its expert */
	TRY(moe_choose(g, l, &router, fail));
	RUN(scale_rows, .n_tok = t, .dim = g->dim, .scale = g->moe.weight, .x = g->n,
	    .y = g->own.in);
	/* x += the expert, of that; and the shared one, of n */
	PART(moe_run, .is_chosen = true, .in = g->own.in, .weight = g->own.ones);
	PART(mlp_run, .m = &l->experts.shared, .is_shared = true);
	return OK;
}

static enum status llama4_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			      struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);

	/* q (T, H, K), k and v (T, G, K) = W norm(x) */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised and rotated, or neither */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	/* x (T, D) += Wo y */
	PART(attend_out);
	/* x += Wdown (silu(Wgate norm(x)) * Wup norm(x)), or of experts */
	if (l->experts.n)
		return llama4_experts(g, l, s, fail);
	PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

const struct family family_llama4 = {
	.norms = {TWO_NORMS}, .layer = llama4_layer, .alloc = llama4_alloc, .run = llama4_run};
