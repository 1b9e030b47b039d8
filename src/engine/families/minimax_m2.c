/* SPDX-License-Identifier: Apache-2.0
 *
 * MiniMax-M2: all heads of q are normalised together, and all of k; only a part of a head rotates.
 * Experts are chosen by sigmoids and a bias. Source: modeling_minimax_m2.py of Hugging Face
 * Transformers.
 */
#include "engine/family.h"

static void minimax_m2_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_TOGETHER;
	l->experts = family_experts(g, i);
}

static enum status minimax_m2_run(struct graph *g, const struct layer *l,
				  const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, K), k and v (T, G, K) = W norm(x); q and k normalised as one row */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are rotated */
	PART(attend_see);
	/* x (T, D) += Wo y */
	PART(attend_out, .next = moe_follow(g, l) ? &router : NULL);
	/* x += the chosen experts by their weights */
	PART(moe_run, .norm = &between);
	return OK;
}

const struct family family_minimax_m2 = {.norms = {TWO_NORMS}, .layer = minimax_m2_layer,
					 .run = minimax_m2_run};
