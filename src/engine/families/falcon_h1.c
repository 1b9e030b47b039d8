/* SPDX-License-Identifier: Apache-2.0
 *
 * Falcon-H1: attention and a state space of Mamba-2 read the same norm of x, and both add to it. So
 * a layer has keys and values, and a state. Multipliers of its parts are in the settings of the
 * parts (model/families/falcon_h1_files.c). Source: modeling_falcon_h1.py of Hugging Face
 * Transformers.
 */
#include "engine/family.h"

static void falcon_h1_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->delta = family_delta(g, DELTA_MAMBA);
	l->mlp = family_mlp(g);
}

static enum status falcon_h1_run(struct graph *g, const struct layer *l,
				 const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);

	/* q (T, H, K), k and v (T, G, K) = W n, n = norm(x) */
	PART(attend_project, .norm = &before);
	PART(attend_see);
	/* x (T, D) += Wo attention */
	PART(attend_out);
	/* x += Wout (y silu(z)), y (T, Hv V) of a state space of n */
	PART_OF(mamba_run, delta_run, .norm = NULL);
	/* x += Wdown (silu(Wgate norm(x)) * Wup norm(x)) */
	PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

static enum status falcon_h1_replay(struct graph *g, const struct layer *l,
				    const struct engine_replay *r, const struct graph_ids *ids,
				    struct fail *fail)
{
	return mamba_replay(g, l, r, ids, fail);
}

const struct family family_falcon_h1 = {
	.norms = {TWO_NORMS}, .layer = falcon_h1_layer, .run = falcon_h1_run,
	.replay = falcon_h1_replay};
