/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 3, text: four norms a layer; five layers with a window, which rotate by a rope
 * of their own, before each that sees all; gelu; scaled embeddings. Source:
 * modeling_gemma3.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void gemma3_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.norms = HEADS_NORM;
	l->mlp = family_mlp(g);
}

static enum status gemma3_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			      struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);

	/* q (T, H, K), k and v (T, G, K) = W norm(x) */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	/* x (T, D) += norm(Wo y) */
	PART(attend_out, .post = l->norms[NORM_MIXER_POST]);
	/* x += norm(Wdown (gelu(Wgate norm(x)) * Wup norm(x))) */
	PART(mlp_run, .m = &l->mlp, .norm = &between, .post = l->norms[NORM_MLP_POST]);
	return OK;
}

const struct family family_gemma3 = {
	.norms = {[NORM_MIXER] = "input_layernorm",
		  [NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP] = "pre_feedforward_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm"},
	.layer = gemma3_layer, .run = gemma3_run};
