/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 3.5 and 3.7: as Laguna, but the gates of heads are sigmoids. In some layers the activation
 * has limits: one of the routed experts, and one of the shared expert or the dense part.
 * Source: modeling_step3p7.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void step3_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_NORM;
	l->attention.gate_span = g->c->gate_span;
	l->experts = family_limited_experts(g, i, "mlp.shared_experts");
	if (l->experts.n)
		return;
	l->mlp = family_mlp(g);
	l->mlp.act = family_limited(g->c->limits.others, i);
}

static enum status step3_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			     struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, K), k and v (T, G, K), gates (T, H) = W norm(x) */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	TRY(attend_gate(g, l, s, fail));
	/* x (T, D) += Wo (y sigmoid(gate)) */
	PART(attend_out, .next = moe_follow(g, l) ? &router : NULL);
	/* x += the chosen experts by their weights, and the shared one; or a dense part */
	return family_feed(g, l, s, fail);
}

const struct family family_step3 = {
	.norms = {TWO_NORMS}, .layer = step3_layer, .run = step3_run};
