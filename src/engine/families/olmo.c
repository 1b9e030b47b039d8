/* SPDX-License-Identifier: Apache-2.0
 *
 * OLMo 2 and OLMo 3: the two parts of a layer read the residual stream without a norm, and their
 * outputs are normalised. All heads of q are normalised together, and all of k. Sources:
 * modeling_olmo2.py and modeling_olmo3.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void olmo_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_TOGETHER;
	l->mlp = family_mlp(g);
}

static enum status olmo_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			    struct fail *fail)
{
	int32_t t = s->b->n_tok;

	/* q (T, H, K), k and v (T, G, K) = W x; q and k normalised as one row */
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x, .y = g->n);
	PART(attend_project);
	/* y (T, H, K) = attention; heads of q and k are rotated */
	PART(attend_see);
	/* x (T, D) += norm(Wo y) */
	PART(attend_out, .post = l->norms[NORM_MIXER_POST]);
	/* x += norm(Wdown (silu(Wgate x) * Wup x)) */
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x, .y = g->n);
	PART(mlp_run, .m = &l->mlp, .post = l->norms[NORM_MLP_POST]);
	return OK;
}

const struct family family_olmo = {
	.norms = {[NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm"},
	.layer = olmo_layer, .run = olmo_run};
