/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph_turns.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/model_turns.h"

struct device_turn {
	const struct turn_matrix *host;
	struct turn_matrix on;
};

/* n floats of the host, or NULL. */
static enum status put(struct graph *g, const float *host, size_t n, const float **out,
		       struct fail *fail)
{
	*out = NULL;
	return host ? graph_put_floats(g, host, n, out, fail) : OK;
}

/* *out: this turn with its numbers on the device; NULL for NULL. */
static enum status put_turn(struct graph *g, const struct turn_matrix *host,
			    const struct turn_matrix **out, struct fail *fail)
{
	struct graph_turns *t = g->turns;
	*out = NULL;
	for (size_t i = 0; host && i < t->n_on; i++)
		if (t->on[i]->host == host)
			*out = &t->on[i]->on;
	if (!host || *out)
		return OK;
	size_t n = (size_t)host->n, order = (size_t)host->order;
	struct device_turn *d = xcalloc(1, sizeof *d);
	t->on = xrealloc(t->on, (t->n_on + 1) * sizeof(struct device_turn *));
	t->on[t->n_on++] = d;
	*d = (struct device_turn){host, *host};
	enum status st = put(g, host->base, order * order, &d->on.base, fail);
	if (st == OK)
		st = put(g, host->before, n, &d->on.before, fail);
	if (st == OK)
		st = put(g, host->after, n, &d->on.after, fail);
	*out = &d->on;
	return st;
}

static enum status load(struct graph *g, const char *name, const struct model_turned *of,
			struct weight *to, struct fail *fail)
{
	const struct turn_matrix *in, *out;
	enum status st = model_weight_turns(g->m, name, of, &in, &out, fail);
	if (st != OK || (!in && !out))
		return st;
	struct graph_turns *t = g->turns;
	struct weight_turns *w = xcalloc(1, sizeof *w);
	t->of = xrealloc(t->of, (t->n_of + 1) * sizeof(struct weight_turns *));
	t->of[t->n_of++] = w;
	w->memory = &t->memory;
	st = put_turn(g, in, &w->in, fail);
	if (st == OK)
		st = put_turn(g, out, &w->out, fail);
	to->turns = w;
	return st;
}

enum status graph_turns_load(struct graph *g, const char *name, const struct graph_part *p,
			     struct fail *fail)
{
	bool is_table = p->kind == GRAPH_TABLE || p->out == &g->embed;
	const char *why_not = is_table			? "embeddings"
			      : p->kind == GRAPH_EXPERT ? "experts"
			      : p->kind == GRAPH_ROWS	? "routers and matrices of heads" : NULL;
	return load(g, name, &(struct model_turned){p->rows, p->cols, !is_table, why_not},
		    p->out, fail);
}

enum status graph_turns_head(struct graph *g, struct fail *fail)
{
	char name[200];
	snprintf(name, sizeof name, "%slm_head", g->c->prefix);
	enum status st = load(g, name, &(struct model_turned){g->c->n_vocab, g->c->d_model, true,
							      NULL}, &g->head, fail);
	if (st == OK && g->head.turns && g->head.turns->out)
		return fail_at(fail, E_UNSUPPORTED, "transform_config", "config.json: "
			       "transform_config turns the outputs of %s, the logits", name);
	return st;
}

enum status graph_turns_none(const struct weight *const *w, size_t n, const char *what,
			     struct fail *fail)
{
	for (size_t i = 0; i < n; i++)
		if (w[i]->turns)
			return fail_at(fail, E_UNSUPPORTED, "transform_config", "config.json: "
				       "transform_config turns inputs or outputs of %s: halod "
				       "does not do so with %s", w[i]->name, what);
	return OK;
}

enum status graph_turns_alloc(struct graph *g, struct fail *fail)
{
	struct turn_memory unused = {NULL, NULL}; /* while it is measured */
	struct turn_memory *to = g->turns ? &g->turns->memory : &unused;
	size_t t = (size_t)g->limits.max_batch_tok;
	int32_t k, n;
	model_turn_sizes(g->m, &k, &n);
	const struct graph_want wanted[] = {
		{&to->in, t * (size_t)k * dtype_bytes(g->b->act_type) + 1},
		{&to->out, t * (size_t)n * sizeof *to->out + 1},
	};
	return k || n ? graph_take_all(g, wanted, ARRAY_LEN(wanted), fail) : OK;
}

void graph_turns_free(struct graph *g)
{
	struct graph_turns *t = g->turns;
	if (!t)
		return;
	for (size_t i = 0; i < t->n_on; i++)
		free(t->on[i]);
	for (size_t i = 0; i < t->n_of; i++)
		free(t->of[i]);
	free(t->on);
	free(t->of);
	free(t);
}
