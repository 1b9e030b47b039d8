/* SPDX-License-Identifier: Apache-2.0
 *
 * Granite 4 hybrids: state spaces of Mamba-2, and attention without rotation in a few
 * layers; dense, or experts beside a shared one. Source: modeling_granitemoehybrid.py of
 * Hugging Face Transformers.
 */
#include "engine/family.h"

static void granite_hybrid_layer(const struct graph *g, int i, struct layer *l)
{
	if (g->c->is_linear[i])
		l->delta = family_delta(g, DELTA_MAMBA);
	else
		l->attention = family_attention(g, i);
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	/* A dense layer is a shared expert alone. */
	if (!l->experts.n) {
		l->mlp = family_mlp(g);
		if (graph_layer_has(g, i, "mlp.shared_experts.down_proj"))
			l->mlp.name = "mlp.shared_experts";
	}
}

static enum status granite_hybrid_run(struct graph *g, const struct layer *l,
				      const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);
	const struct moe_router_args *next = moe_follow(g, l) ? &router : NULL;

	if (l->delta.kind == DELTA_MAMBA) {
		/* x (T, D) += Wout norm(y silu(z)), y (T, Hv V) of a state space */
		PART_OF(mamba_run, delta_run, .norm = &before, .next = next);
	} else {
		/* x += Wo attention(q, k, v of norm(x)), without rotation */
		PART(attend_project, .norm = &before);
		PART(attend_see);
		PART(attend_out, .next = next);
	}
	/* x += the chosen experts by their weights, and the shared one; or a dense part */
	if (l->experts.n)
		PART(moe_run, .norm = &between);
	else
		PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

static enum status granite_hybrid_replay(struct graph *g, const struct layer *l,
					 const struct engine_replay *r,
					 const struct graph_ids *ids, struct fail *fail)
{
	return l->delta.kind == DELTA_MAMBA ? mamba_replay(g, l, r, ids, fail) : OK;
}

const struct family family_granite_hybrid = {
	.norms = {TWO_NORMS}, .layer = granite_hybrid_layer, .run = granite_hybrid_run,
	.replay = granite_hybrid_replay};
