/* SPDX-License-Identifier: Apache-2.0
 *
 * EXAONE 4: the two parts of a layer read the residual stream without a norm, and their outputs
 * are normalised. Each head of q and k is normalised. If some layers have a window, only they
 * rotate. Source: modeling_exaone4.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void exaone4_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_NORM;
	l->mlp = family_mlp(g);
}

static enum status exaone4_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			       struct fail *fail)
{
	const struct attention *a = &l->attention;
	int32_t t = s->b->n_tok;

	/* q (T, H, K), k and v (T, G, K) = W x */
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x, .y = g->n);
	PART(attend_project);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	/* x (T, D) += norm(Wo y) */
	PART(attend_out, .post = l->norms[NORM_MIXER_POST]);
	/* x += norm(Wdown (silu(Wgate x) * Wup x)) */
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x, .y = g->n);
	PART(mlp_run, .m = &l->mlp, .post = l->norms[NORM_MLP_POST]);
	return OK;
}

const struct family family_exaone4 = {
	.norms = {[NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm"},
	.layer = exaone4_layer, .run = exaone4_run};
