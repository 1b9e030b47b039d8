/* SPDX-License-Identifier: Apache-2.0
 *
 * Cohere's Command R and R+, Aya, and Command R7B and A (Cohere 2): the two parts of a layer read
 * the same norm, which subtracts the mean. In Cohere 2 only layers with a window rotate. Command
 * R+ normalises each head of q and k, by weights of that head. Sources: modeling_cohere.py and
 * modeling_cohere2.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void cohere_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	bool has_norms = graph_layer_has(g, i, "self_attn.q_norm.weight");
	l->attention.norms = has_norms ? HEADS_EACH : HEADS_PLAIN;
	l->mlp = family_mlp(g);
}

static enum status cohere_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			      struct fail *fail)
{
	int32_t t = s->b->n_tok;

	/* n (T, D) = norm(x), for both parts */
	RUN(layer_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->x,
	    .weight = l->norms[NORM_MIXER], .y = g->n);
	/* q (T, H, K), k and v (T, G, K) = W n; heads of q and k normalised */
	PART(attend_project);
	/* y (T, H, K) = attention; heads of q and k are rotated */
	PART(attend_see);
	/* x (T, D) += Wo y */
	PART(attend_out);
	/* x += Wdown (silu(Wgate n) * Wup n) */
	PART(mlp_run, .m = &l->mlp);
	return OK;
}

const struct family family_cohere = {
	.norms = {[NORM_MIXER] = "input_layernorm"}, .has_layer_norms = true, .layer = cohere_layer,
	.run = cohere_run};
