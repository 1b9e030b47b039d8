/* SPDX-License-Identifier: Apache-2.0
 *
 * GLM-4-MoE, HY 3 and EXAONE-MoE: the first layers are dense, the others have grouped experts,
 * chosen by sigmoids and a bias, and a shared one. In GLM only a part of a head rotates, and some
 * models have norms of q and k. In EXAONE-MoE only layers with a window rotate. Sources:
 * modeling_glm4_moe.py, modeling_hy_v3.py and modeling_exaone_moe.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void glm4_moe_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = g->c->qk_norm ? HEADS_NORM : HEADS_PLAIN;
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status glm4_moe_mix(struct graph *g, const struct layer *l, const struct graph_step *s,
				struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, K), k and v (T, G, K) = W norm(x) + bias */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	/* x (T, D) += Wo y */
	PART(attend_out, .next = moe_follow(g, l) ? &router : NULL);
	return OK;
}

const struct family family_glm4_moe = {
	.norms = {TWO_NORMS}, .layer = glm4_moe_layer, .mix = glm4_moe_mix, .feed = family_feed};
