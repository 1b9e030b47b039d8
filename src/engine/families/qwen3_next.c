/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3-Next and Qwen3.5, dense and with experts.
 *
 * Layers are gated delta nets. Every fourth layer, or those that the config lists, is
 * attention whose output has a gate. Experts include a shared one, weighed by a
 * sigmoid. Models with vision run their text part: for text alone, their three rows of
 * positions are equal.
 *
 * Sources: modeling_qwen3_next.py, modeling_qwen3_5.py and modeling_qwen3_5_moe.py of
 * Hugging Face Transformers.
 */
#include "engine/family.h"

static void qwen3_next_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	if (i < c->n_layers && c->is_linear[i]) {
		l->delta = family_delta(g, DELTA_NET);
		l->delta.may_sharpen = true;
	} else {
		l->attention = family_attention(g, i);
		l->attention.norms = HEADS_NORM;
		l->attention.is_gated = true;
	}
	l->experts = family_experts_and(g, i, "mlp.shared_expert");
	l->experts.shared_router = "mlp.shared_expert_gate";
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status qwen3_next_mix(struct graph *g, const struct layer *l,
				  const struct graph_step *s, struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);
	const struct moe_router_args *next = moe_follow(g, l) ? &router : NULL;

	/* x (T, D) += Wout (norm(y) * silu(z)), y (T, Hv, V) of a gated delta net */
	if (l->delta.kind == DELTA_NET) {
		PART(delta_run, .norm = &before, .next = next);
		return OK;
	}
	/* q and its gate (T, H, 2 K), k and v (T, G, K) = W norm(x) */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated in a part */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	TRY(attend_gate(g, l, s, fail));
	/* x += Wo (y * sigmoid(gate)) */
	PART(attend_out, .next = next);
	return OK;
}

static enum status qwen3_next_replay(struct graph *g, const struct layer *l,
				     const struct engine_replay *r,
				     const struct graph_ids *ids, struct fail *fail)
{
	return l->delta.kind == DELTA_NET ? delta_replay(g, l, r, ids, fail) : OK;
}

const struct family family_qwen3_next = {
	.norms = {TWO_NORMS}, .layer = qwen3_next_layer, .mix = qwen3_next_mix, .feed = family_feed,
	.replay = qwen3_next_replay};
