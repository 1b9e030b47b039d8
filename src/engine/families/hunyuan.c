/* SPDX-License-Identifier: Apache-2.0
 *
 * Hunyuan, dense and with experts beside a shared one: heads of q and k are rotated, then
 * normalised. Sources: modeling_hunyuan_v1_dense.py and modeling_hunyuan_v1_moe.py of
 * Hugging Face Transformers.
 */
#include "engine/family.h"

static void hunyuan_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_NORM;
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status hunyuan_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			       struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, K), k and v (T, G, K) = W norm(x) + bias */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are rotated, then normalised */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm, .norm_after_rope = true);
	/* x (T, D) += Wo y */
	PART(attend_out, .next = moe_follow(g, l) ? &router : NULL);
	/* x += the chosen experts by their weights, and the shared one; or a dense part */
	if (l->experts.n)
		PART(moe_run, .norm = &between);
	else
		PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

const struct family family_hunyuan = {.norms = {TWO_NORMS}, .layer = hunyuan_layer,
				      .run = hunyuan_run};
