/* SPDX-License-Identifier: Apache-2.0
 *
 * What each layer reads of the token itself, beside the residual stream (Gemma 4). At the
 * beginning of a step, with x the embeddings:
 *
 *   e = (table[token] sqrt(P) + norm(Wproject x / sqrt(D))) / sqrt(2)     (L, P)
 *
 * and after the two parts of layer i:
 *
 *   x += norm(Wout (gelu(Wgate x) * e[i]))
 *
 * Constants stand where they cost nothing: 1 / sqrt(2) in the norm's weights and in the
 * table's scale, 1 / sqrt(D) in the norm's eps. Source: modeling_gemma4.py of Hugging Face
 * Transformers.
 */
#include "engine/parts/layer_embed.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

enum status layer_embed_load_top(struct graph *g, struct fail *fail)
{
	struct layer_embed_scratch *r = &g->embeds;
	int32_t p = r->width, all = g->n_layers * p;
	const struct graph_part parts[] = {
		{"embed_tokens_per_layer", GRAPH_TABLE, r->n_rows, all, &r->table},
		{"per_layer_model_projection", GRAPH_WEIGHT, all, g->dim, &r->project},
	};
	if (r->n_rows < g->embed.n)
		return fail_at(fail, E_UNSUPPORTED, "vocab_size_per_layer_input",
			       "config.json: only %d of %d tokens have embeddings of each layer",
			       r->n_rows, g->embed.n);
	enum status st = graph_load_parts(g, -1, parts, ARRAY_LEN(parts), fail);
	if (st == OK)
		st = graph_put_scaled(g, -1, "per_layer_projection_norm.weight", p,
				      (float)sqrt(0.5), &r->norm, fail);
	return st;
}

enum status layer_embed_load(struct graph *g, int i, struct fail *fail)
{
	struct layer_embed *e = &g->layers[i].embed;
	const struct graph_part parts[] = {
		{"per_layer_input_gate", GRAPH_WEIGHT, g->embeds.width, g->dim, &e->gate},
		{"per_layer_projection", GRAPH_WEIGHT, g->dim, g->embeds.width, &e->out},
		{"post_per_layer_input_norm.weight", GRAPH_NORM, g->dim, 0,
		 &e->post_norm},
	};
	return graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
}

enum status layer_embed_alloc(struct graph *g, struct fail *fail)
{
	struct layer_embed_scratch *r = &g->embeds;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t n = t * (size_t)g->n_layers * (size_t)g->embeds.width;
	const struct graph_want wanted[] = {
		{&r->sum, n * sizeof *r->sum},
		{&r->part, n * sizeof *r->part},
		{&r->all, n * act},
		{&r->gate, t * (size_t)g->embeds.width * act},
	};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

enum status layer_embed_begin(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	const struct layer_embed_scratch *r = &g->embeds;
	int32_t t = s->b->n_tok, p = g->embeds.width;
	RUN(embed_rows, .n_tok = t, .table = &r->table, .token = s->ids.token, .x = r->sum,
	    .scale = r->scale);
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x, .y = g->n);
	RUN(linear, .n_tok = t, .x = g->n, .n_out = 1,
	    .out = {{.w = &r->project, .y = r->part, .is_f32 = true}});
	RUN(rms_norm, .n_tok = t * g->n_layers, .dim = p,
	    .eps = g->eps * (float)g->dim, .x = r->part, .weight = r->norm,
	    .sum = r->sum);
	RUN(to_act, .n_tok = t * g->n_layers, .dim = p, .x = r->sum, .y = r->all);
	return OK;
}

enum status layer_embed_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			    const struct layer_embed_run *x, struct fail *fail)
{
	int32_t t = s->b->n_tok;
	const struct layer_embed *e = &l->embed;
	const struct layer_embed_scratch *r = &g->embeds;
	size_t at = (size_t)(l - g->layers) * (size_t)g->embeds.width;
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x, .y = g->n);
	RUN(linear, .n_tok = t, .x = g->n, .n_out = 1,
	    .out = {{.w = &e->gate, .y = r->gate}});
	RUN(act_mul, .n_tok = t, .dim = g->embeds.width, .act = r->act, .gate = r->gate,
	    .up = (const char *)r->all + at * dtype_bytes(g->b->act_type),
	    .up_pitch = g->n_layers * g->embeds.width, .y = r->gate);
	RUN(linear, .n_tok = t, .x = r->gate, .n_out = 1,
	    .out = {{.w = &e->out, .y = g->part, .is_f32 = true}});
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->part,
	    .weight = e->post_norm, .sum = g->x, .sum_scale = x->scale);
	return OK;
}
