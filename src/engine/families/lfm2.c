/* SPDX-License-Identifier: Apache-2.0
 *
 * LFM2, dense and with experts: short convolutions, and attention in the layers that the
 * config lists. Experts are routed by sigmoids, with a bias for the choice; the first layers are
 * dense. Sources: modeling_lfm2.py and modeling_lfm2_moe.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void lfm2_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	if (c->is_linear[i]) {
		l->delta = (struct delta){.kind = DELTA_CONV, .conv_width = c->delta.conv_width};
	} else {
		l->attention = family_attention(g, i);
		l->attention.norms = HEADS_NORM;
	}
	l->experts = family_experts(g, i);
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status lfm2_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			    struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);
	const struct moe_router_args *next = moe_follow(g, l) ? &router : NULL;

	if (l->delta.kind == DELTA_CONV) {
		/* x (T, D) += Wout (c * conv(b * v)), with b, c, v of norm(x) */
		PART_OF(conv_run, delta_run, .norm = &before, .next = next);
	} else {
		/* x += Wo attention(q, k, v of norm(x)); heads of q and k are normalised, then
		 * rotated */
		PART(attend_project, .norm = &before);
		PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
		PART(attend_out, .next = next);
	}
	/* x += the chosen experts by their weights; or a dense part */
	if (l->experts.n)
		PART(moe_run, .norm = &between);
	else
		PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

const struct family family_lfm2 = {.norms = {TWO_NORMS}, .layer = lfm2_layer, .run = lfm2_run};
