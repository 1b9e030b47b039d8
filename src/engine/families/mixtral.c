/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtral, and Granite 3 with experts, which may have a shared one. Sources, of Hugging Face
 * Transformers: the files modeling_*.py of mixtral, granitemoe and granitemoeshared.
 */
#include "engine/family.h"

static void mixtral_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
}

static enum status mixtral_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			       struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, K), k and v (T, G, K) = W norm(x) + bias */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are rotated */
	PART(attend_see);
	/* x (T, D) += Wo y */
	PART(attend_out, .next = moe_follow(g, l) ? &router : NULL);
	/* x += the chosen experts by their weights, and the shared one */
	PART(moe_run, .norm = &between);
	return OK;
}

const struct family family_mixtral = {.norms = {TWO_NORMS}, .layer = mixtral_layer,
				      .run = mixtral_run};
