/* SPDX-License-Identifier: Apache-2.0
 *
 * Laguna: as GLM-4-MoE, and attention's output has a gate for each head or each channel, softplus
 * of a projection. Layers with a window have more heads of queries, and a rotation of their own.
 * Source: modeling_laguna.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void laguna_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_NORM;
	l->attention.gate_span = g->c->gate_span;
	l->attention.gate_is_softplus = true;
	l->experts = family_experts_and(g, i, "mlp.shared_expert");
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status laguna_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			      struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, K), k and v (T, G, K), gates (T, H) or (T, H, K) = W norm(x) */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	TRY(attend_gate(g, l, s, fail));
	/* x (T, D) += Wo (y * log(1 + exp(gate))) */
	PART(attend_out, .next = moe_follow(g, l) ? &router : NULL);
	/* x += the chosen experts by their weights, and the shared one; or a dense part */
	return family_feed(g, l, s, fail);
}

const struct family family_laguna = {
	.norms = {TWO_NORMS}, .layer = laguna_layer, .run = laguna_run};
