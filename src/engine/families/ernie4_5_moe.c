/* SPDX-License-Identifier: Apache-2.0
 *
 * ERNIE 4.5 with experts: they are chosen by a softmax and a bias, and weighed by the softmax
 * alone. Some layers are dense. Source: modeling_ernie4_5_moe.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void ernie4_5_moe_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	if (!l->experts.n)
		l->mlp = family_mlp(g);
	l->experts.is_shifted = l->experts.has_choice_bias = true;
	l->experts.choice_is_row = true;
}

static enum status ernie4_5_moe_run(struct graph *g, const struct layer *l,
				    const struct graph_step *s, struct fail *fail)
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
	/* x += the chosen experts by their weights, and the shared ones; or a dense part */
	if (l->experts.n)
		PART(moe_run, .norm = &between);
	else
		PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

const struct family family_ernie4_5_moe = {.norms = {TWO_NORMS}, .layer = ernie4_5_moe_layer,
					   .run = ernie4_5_moe_run};
