/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt-oss: a window in every other layer, attention sinks, and experts with biases and
 * a clamped activation in all. Source: modeling_gpt_oss.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void gpt_oss_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.has_sinks = true;
	l->experts = family_experts(g, i);
	l->experts.router_name = "mlp.router";
	l->experts.has_logit_bias = l->experts.has_bias = true;
}

static enum status gpt_oss_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			       struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, K), k and v (T, G, K) = W norm(x) + bias */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are rotated. A head's sink is a logit more */
	PART(attend_see);
	/* x (T, D) += Wo y + bias */
	PART(attend_out, .next = moe_follow(g, l) ? &router : NULL);
	/* x += the chosen experts by their weights, each with biases */
	PART(moe_run, .norm = &between);
	return OK;
}

const struct family family_gpt_oss = {
	.norms = {TWO_NORMS}, .layer = gpt_oss_layer, .run = gpt_oss_run,
	.no_int8_kv = "it has attention sinks"};
