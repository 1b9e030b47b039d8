/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 4, text: as Gemma 3, with heads of other sizes in the layers that see all. In E2B and
 * E4B the last layers read keys and values of those before them, and each layer reads an
 * embedding of the token (parts/layer_embed.c). In 26B-A4B experts stand beside the dense part.
 * Source: modeling_gemma4.py of Hugging Face Transformers.
 */
#include "engine/family.h"

#include <math.h>

#include "base/alloc.h"

static void gemma4_model(struct graph *g)
{
	const struct model_config *c = g->c;
	g->embeds.width = c->gemma4.embed_dim;
	g->embeds.n_rows = c->gemma4.embed_rows;
	g->embeds.scale = c->gemma4.embed_scale;
	g->embeds.act = c->act;
}

static void gemma4_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	struct attention *a = &l->attention;
	*a = family_attention(g, i);
	a->norms = HEADS_NORM;
	a->norms_values = true;
	a->has_v = !c->gemma4.keys_are_values || model_has_window(c, i);
	a->kv_layer = model_kv_layer(c, i);
	l->mlp = family_mlp(g);
	l->mlp.dim = model_ffn_dim(c, i);
	l->has_scale = true;
	if (c->gemma4.has_experts)
		l->experts = family_experts(g, i);
	l->experts.router_name = "router.proj";
	l->experts.has_expert_scale = l->experts.is_hidden = true;
	for (int n = NORM_DENSE_POST; n < GRAPH_NORMS && !l->experts.n; n++)
		l->norm_names[n] = NULL;
}

/* The norm of what the router reads. */
static enum status gemma4_load(struct graph *g, int i, struct fail *fail)
{
	struct layer *l = &g->layers[i];
	return l->experts.n ? graph_put_scaled(g, i, "router.scale", g->dim,
					       1 / sqrtf((float)g->dim), &l->own_norm, fail)
			    : OK;
}

static enum status gemma4_alloc(struct graph *g, struct fail *fail)
{
	size_t n = 2 * (size_t)g->limits.max_batch_tok * (size_t)g->dim;
	return g->layers[0].experts.n
		       ? graph_alloc(g, n * sizeof *g->own.both, &g->own.both, fail) : OK;
}

/* both (2, T, D): the sum of the two parts' outputs, then the experts' output before its norm. */
static enum status gemma4_experts(struct graph *g, const struct layer *l,
				  const struct graph_step *s, struct fail *fail)
{
	int32_t t = s->b->n_tok;
	float *both = g->own.both, *y = both + (size_t)t * (size_t)g->dim;
	struct rms_norm_args seen = graph_norm(g, l, NORM_EXPERTS, t), chosen = seen;
	chosen.weight = l->own_norm;
	const struct moe_router_args router = moe_router(g, l, t, &chosen);

	RUN(fill_words, .n = 2 * t * g->dim, .y = both);
	/* the router chooses by a norm of x of its own */
	TRY(moe_choose(g, l, &router, fail));
	/* y (T, D) = the experts, which read another norm of x; both += norm(y) */
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->x, .weight = seen.weight,
	    .y = g->n);
	PART(moe_run, .is_chosen = true, .y = y);
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = y,
	    .weight = l->norms[NORM_EXPERTS_POST], .sum = both);
	return OK;
}

/* x = (x + norm(norm(the dense part) + norm(the experts))) scale, each of a norm of x. */
static enum status both_parts(struct graph *g, const struct layer *l, const struct graph_step *s,
			      struct fail *fail)
{
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	int32_t t = s->b->n_tok;

	/* part (T, D) = Wdown (gelu(Wgate norm(x)) * Wup norm(x)) */
	profile_enter(g->b->profile, PROFILE_GATE_UP);
	PART(mlp_inner, .m = &l->mlp, .norm = &between);
	profile_enter(g->b->profile, PROFILE_DOWN);
	LINEAR(.n_tok = t, .x = g->mlp.gate, .n_out = 1,
	       .out = {{.w = &l->mlp.down, .y = g->part, .is_f32 = true}});
	TRY(gemma4_experts(g, l, s, fail));
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->part,
	    .weight = l->norms[NORM_DENSE_POST], .sum = g->own.both);
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->own.both,
	    .weight = l->norms[NORM_MLP_POST], .sum = g->x,
	    .sum_scale = g->embeds.width ? 0 : l->scale);
	return OK;
}

static enum status gemma4_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			      struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	float scale = g->embeds.width ? 0 : l->scale; /* the last part of a layer has it */

	/* q (T, H, K), k and v (T, G, K) = W norm(x); v normalised. In some layers v is k before
	 * its norm; the last ones have q alone */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are normalised, then rotated */
	PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm);
	/* x (T, D) += norm(Wo y) */
	PART(attend_out, .post = l->norms[NORM_MIXER_POST]);
	/* x += norm(Wdown (gelu(Wgate norm(x)) * Wup norm(x))) */
	if (l->experts.n)
		TRY(both_parts(g, l, s, fail));
	else
		PART(mlp_run, .m = &l->mlp, .norm = &between, .post = l->norms[NORM_MLP_POST],
		     .scale = scale);
	/* x += norm(Wout (gelu(Wgate x) * what the layer reads of the token)) */
	if (g->embeds.width)
		PART(layer_embed_run, .scale = l->scale);
	return OK;
}

static enum status gemma4_begin(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	return g->embeds.width ? layer_embed_begin(g, s, fail) : OK;
}

const struct family family_gemma4 = {
	.norms = {[NORM_MIXER] = "input_layernorm",
		  [NORM_MIXER_POST] = "post_attention_layernorm",
		  [NORM_MLP] = "pre_feedforward_layernorm",
		  [NORM_MLP_POST] = "post_feedforward_layernorm",
		  [NORM_DENSE_POST] = "post_feedforward_layernorm_1",
		  [NORM_EXPERTS] = "pre_feedforward_layernorm_2",
		  [NORM_EXPERTS_POST] = "post_feedforward_layernorm_2"},
	.model = gemma4_model, .layer = gemma4_layer, .load = gemma4_load, .alloc = gemma4_alloc,
	.begin = gemma4_begin, .run = gemma4_run};
