/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/parts/mlp.h"

#include <stdio.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

/* The biases, as far as a file has them. In a folder the settings say that all are there. */
static enum status load_biases(struct graph *g, int i, struct mlp *m, struct fail *fail)
{
	const struct {
		const char *part;
		int32_t n;
		const float **out;
	} biases[] = {{"gate", m->dim, &m->gate_bias}, {"up", m->dim, &m->up_bias},
		      {"down", g->dim, &m->down_bias}};
	enum status st = OK;
	for (size_t b = m->is_ungated; b < ARRAY_LEN(biases) && st == OK; b++) {
		char full[80];
		snprintf(full, sizeof full, "%s.%s_proj.bias", m->name, biases[b].part);
		const struct graph_part part = {full, GRAPH_VECTOR, biases[b].n, 0,
						biases[b].out};
		if (!model_may_lack(g->m) || graph_layer_has(g, i, full))
			st = graph_load_parts(g, i, &part, 1, fail);
	}
	return st;
}

enum status mlp_load(struct graph *g, int i, struct mlp *m, struct fail *fail)
{
	int32_t d = g->dim, f = m->dim;
	char gate[80], up[80], down[80];
	snprintf(gate, sizeof gate, "%s.gate_proj", m->name);
	snprintf(up, sizeof up, "%s.up_proj", m->name);
	snprintf(down, sizeof down, "%s.down_proj", m->name);
	const struct graph_part parts[] = {
		{gate, GRAPH_WEIGHT, f, d, &m->gate},
		{up, GRAPH_WEIGHT, f, d, &m->up},
		{down, GRAPH_WEIGHT, d, f, &m->down},
	};
	int first = m->is_ungated;
	enum status st = graph_load_parts(g, i, parts + first, ARRAY_LEN(parts) - (size_t)first,
					  fail);
	if (first)
		m->gate = m->up;
	return st == OK && m->has_bias ? load_biases(g, i, m, fail) : st;
}

enum status mlp_alloc(struct graph *g, struct fail *fail)
{
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type), f = 0;
	for (int i = 0; i < graph_n_layers(g); i++) {
		const struct layer *l = &g->layers[i];
		f = MAX(f, (size_t)l->mlp.dim);
		f = MAX(f, l->experts.shared_is_apart ? (size_t)l->experts.shared.dim : 0);
	}
	const struct graph_want wanted[] = {{&g->mlp.gate, t * f * act},
					    {&g->mlp.up, t * f * act}};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

static enum status inner_ungated(struct graph *g, const struct layer *l, const struct graph_step *s,
				 const struct mlp_inner *x, struct fail *fail)
{
	const struct mlp *m = x->m;
	const struct mlp_scratch *r = &g->mlp;
	int32_t t = s->b->n_tok;
	LINEAR(.norm = x->norm, .n_tok = t, .x = g->n, .n_out = 1,
	       .out = {{.w = &m->up, .bias = m->up_bias, .y = r->up}});
	RUN(act_mul, .n_tok = t, .dim = m->up.n, .act = m->act, .gate = r->up, .up = r->up,
	    .y = r->gate);
	return OK;
}

enum status mlp_inner(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct mlp_inner *x, struct fail *fail)
{
	const struct mlp *m = x->m;
	const struct mlp_scratch *r = &g->mlp;
	int32_t t = s->b->n_tok;
	if (m->is_ungated)
		return inner_ungated(g, l, s, x, fail);
	LINEAR(.norm = x->norm, .n_tok = t, .x = g->n, .n_out = 2,
	       .act = &m->act,
	       .out = {{.w = &m->gate, .bias = m->gate_bias, .y = r->gate},
		       {.w = &m->up, .bias = m->up_bias, .y = r->up}});
	return OK;
}

enum status mlp_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct mlp_run *x, struct fail *fail)
{
	const struct mlp *m = x->m;
	profile_enter(g->b->profile, x->is_shared ? PROFILE_SHARED : PROFILE_GATE_UP);
	PART(mlp_inner, .m = m, .norm = x->norm);
	profile_enter(g->b->profile, PROFILE_DOWN);
	return graph_add(g, l, s, &(struct graph_add){
		.w = &m->down, .bias = m->down_bias, .in = g->mlp.gate, .post = x->post,
		.scale = x->scale}, fail);
}
