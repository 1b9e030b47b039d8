/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3, dense and with experts, and the text of Qwen3-VL and of Qwen3-Omni's thinker. For text
 * alone, their three rows of positions are equal. Sources, of Hugging Face Transformers: the files
 * modeling_*.py of qwen3, qwen3_moe, qwen3_vl, qwen3_vl_moe and qwen3_omni_moe.
 */
#include "engine/family.h"

static void qwen3_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_NORM;
	l->experts = family_experts(g, i);
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status qwen3_run(struct graph *g, const struct layer *l, const struct graph_step *s,
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
	/* x += Wdown (silu(Wgate norm(x)) * Wup norm(x)), of one matrix each or of the experts
	 * that the router chooses for a token, by their weights */
	if (l->experts.n)
		PART(moe_run, .norm = &between);
	else
		PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

const struct family family_qwen3 = {.norms = {TWO_NORMS}, .layer = qwen3_layer, .run = qwen3_run};
