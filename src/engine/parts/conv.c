/* SPDX-License-Identifier: Apache-2.0
 *
 * A short convolution in the place of attention:
 *
 *   n = norm(x);  b, c, v = W n
 *   x += Wout (c * (a short convolution of b * v along the sequence))
 *
 * The state of a sequence is the last inputs of the convolution. It is that of a gated
 * delta net without a matrix, so struct delta holds it.
 * Source: modeling_lfm2.py of Hugging Face Transformers.
 */
#include "engine/parts/delta.h"

#include "base/alloc.h"
#include "engine/graph_calls.h"

enum status conv_load(struct graph *g, int i, struct fail *fail)
{
	struct delta *a = &g->layers[i].delta;
	int32_t d = g->dim;
	const struct graph_part parts[] = {
		{"conv.in_proj", GRAPH_WEIGHT, 3 * d, d, &a->qkv},
		{"conv.conv.weight", GRAPH_MATRIX, d, a->conv_width, &a->conv},
		{"conv.out_proj", GRAPH_WEIGHT, d, d, &a->out},
	};
	return graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
}

enum status conv_alloc(struct graph *g, struct fail *fail)
{
	struct delta_scratch *r = &g->delta;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t slots = (size_t)g->limits.n_states, d = (size_t)g->dim;
	const struct graph_want wanted[] = {{&r->qkvz, t * 3 * d * act}, {&r->y, t * d * act}};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		struct delta *a = &g->layers[i].delta;
		if (a->kind != DELTA_CONV)
			continue;
		a->conv_bytes = d * (size_t)(a->conv_width - 1) * sizeof(float);
		st = graph_alloc(g, slots * a->conv_bytes, &a->conv_state, fail);
	}
	return st;
}

enum status conv_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		     const struct delta_run *x, struct fail *fail)
{
	const struct delta *a = &l->delta;
	const struct delta_scratch *r = &g->delta;
	int32_t t = s->b->n_tok, d = g->dim;
	struct head_view part[3]; /* b, c, v */
	for (int i = 0; i < 3; i++)
		part[i] = (struct head_view){
			(const char *)r->qkvz +
				(size_t)i * (size_t)d * dtype_bytes(g->b->act_type),
			3 * d, 1, d, d};
	LINEAR(.norm = x->norm, .n_tok = t, .x = g->n, .n_out = 1,
	       .out = {{.w = &a->qkv, .y = r->qkvz}});
	profile_enter(g->b->profile, PROFILE_DELTA);
	RUN(causal_conv, .n_tok = t, .n_seq = s->b->n_seq, .width = a->conv_width,
	    .n_parts = 1, .part = {part[2]}, .is_gated = true, .in_gate = part[0],
	    .out_gate = part[1], .weight = a->conv, .first_tok = s->ids.first_tok,
	    .states = s->ids.states, .state = a->conv_state, .y = r->y);
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, s, &(struct graph_add){.w = &a->out, .in = r->y, .next = x->next},
			 fail);
}
