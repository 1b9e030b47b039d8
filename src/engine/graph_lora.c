/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph_lora.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"
#include "engine/graph_lora_experts.h"
#include "engine/graph_lora_targets.h"
#include "model/lora.h"

struct lora_slot {
	const struct weight *w;
	struct lora_part *part; /* on the device, of each adapter; NULL: none changes w */
};

struct graph_lora {
	struct lora_slot *slots; /* (n_layers, LORA_TARGETS) */
	struct lora_part **experts; /* (n_layers), of graph_lora_experts_fill; NULL: none changes */
	int32_t rank;            /* the largest */
	float *low, *high;       /* work of lora_add and moe_lora */
};

/* --- which modules ------------------------------------------------------------------------ */

/* The module of the adapter for a target. *is_whole: it is the one that has t as some of its rows.
 * NULL: it has none. */
static const struct lora_module *module_for(const struct lora *l, int i,
					    const struct lora_target *t, bool *is_whole)
{
	const struct lora_module *o = *t->name ? lora_find(l, i, t->name) : NULL;
	*is_whole = !o && *t->whole;
	return *is_whole ? lora_find(l, i, t->whole) : o;
}

static enum status fail_shape(const struct lora *l, const struct lora_module *o, int32_t n,
			      int32_t k, struct fail *fail)
{
	return fail_at(fail, E_CONFIG, "lora", "%.120s: %.80s is for a layer of %d inputs and %d "
		       "outputs, and this model's has %d and %d: the adapter was made for another "
		       "base model", l->path, o->file_name, (int)o->k, (int)o->n, (int)k, (int)n);
}

/* Why the model does not take a module. */
static const char *why_not(const struct graph *g, const struct lora_module *o)
{
	if (o->layer >= g->n_layers)
		return "the model has no such layer: the adapter was made for another base model";
	if (o->layer >= 0 && strstr(o->name, "mlp.experts."))
		return g->layers[o->layer].experts.n
			       ? "the experts have no such product, or there are fewer: the "
				 "adapter was made for another base model"
			       : "the layer has no routed experts: the adapter was made for "
				 "another base model";
	if (strstr(o->name, "embed") || strstr(o->name, "lm_head") || strstr(o->name, "output."))
		return "adapters of the embedding and of the output head are not supported";
	if (o->layer < 0)
		return "it is no part of the text model's layers";
	return "this model's files have no linear layer of that name that takes adapters "
	       "(projections of attention and of recurrent layers, gate_proj, up_proj and "
	       "down_proj of dense feed-forward parts and of routed experts)";
}

static enum status match_one(const struct graph *g, const struct lora *l, struct fail *fail)
{
	bool *is_taken = xcalloc(l->n_modules + 1, sizeof *is_taken);
	enum status st = OK;
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		struct lora_target t[LORA_TARGETS];
		int n = graph_lora_targets(g, i, t);
		for (int k = 0; k < n && st == OK; k++) {
			bool is_whole;
			const struct lora_module *o = module_for(l, i, &t[k], &is_whole);
			const struct lora_module *whole =
				*t[k].whole ? lora_find(l, i, t[k].whole) : NULL;
			int32_t rows = is_whole ? t[k].all : t[k].n;
			if (o && whole && o != whole)
				st = graph_lora_fail_twice(l, o, whole, fail);
			else if (o && (o->n != rows || o->k != t[k].k))
				st = fail_shape(l, o, rows, t[k].k, fail);
			if (o)
				is_taken[o - l->modules] = true;
		}
	}
	for (int i = 0; i < g->n_layers && st == OK; i++)
		st = graph_lora_experts_match(g, i, l, is_taken, fail);
	for (size_t i = 0; i < l->n_modules && st == OK; i++)
		if (!is_taken[i])
			st = fail_at(fail, E_UNSUPPORTED, "lora", "%.120s: %.80s: %s", l->path,
				     l->modules[i].file_name, why_not(g, &l->modules[i]));
	free(is_taken);
	return st;
}

enum status graph_lora_match(const struct graph *g, struct fail *fail)
{
	enum status st = OK;
	for (int i = 0; i < g->limits.n_loras && st == OK; i++)
		st = match_one(g, g->limits.loras[i], fail);
	return st;
}

/* --- memory -------------------------------------------------------------------------------- */

/* Of B (N, R) the rows of the target, as (R, n). A number has 2 or 4 bytes. */
static void turn(const struct lora_module *o, const struct lora_target *t, bool is_whole, void *to)
{
	size_t n = (size_t)t->n, rank = (size_t)o->rank, bytes = dtype_bytes(o->type);
	for (size_t i = 0; i < n; i++) {
		size_t row = is_whole ? (size_t)graph_lora_target_row(t, (int32_t)i) : i;
		for (size_t r = 0; r < rank; r++)
			memcpy((char *)to + (r * n + i) * bytes,
			       (const char *)o->b + (row * rank + r) * bytes, bytes);
	}
}

/* Puts A and B of a module on the device: of B the rows of the target, transposed. A target that
 * is transposed multiplies by these first. */
static enum status put_part(struct graph *g, const struct lora_module *o,
			    const struct lora_target *t, bool is_whole, struct lora_part *out,
			    struct fail *fail)
{
	size_t rank = (size_t)o->rank, n = (size_t)t->n, k = (size_t)t->k;
	size_t bytes = dtype_bytes(o->type), n_a = rank * k * bytes, n_b = rank * n * bytes;
	void *a = NULL, *b = NULL, *turned = NULL;
	if (!g->measured) {
		turned = xmalloc(n_b);
		turn(o, t, is_whole, turned);
	}
	enum status st = graph_put(g, o->a, n_a, &a, fail);
	if (st == OK)
		st = graph_put(g, turned, n_b, &b, fail);
	free(turned);
	*out = t->is_transposed ? graph_lora_part(o, b, a) : graph_lora_part(o, a, b);
	return st;
}

/* Fills the slot of a target with the parts of all adapters that change it. */
static enum status fill_slot(struct graph *g, int i, const struct lora_target *t,
			     struct lora_slot *slot, struct fail *fail)
{
	size_t n_loras = (size_t)g->limits.n_loras, n_bytes = n_loras * sizeof(struct lora_part);
	struct lora_part *parts = xcalloc(n_loras, sizeof *parts);
	enum status st = OK;
	bool is_changed = false;
	for (size_t k = 0; k < n_loras && st == OK; k++) {
		bool is_whole;
		const struct lora_module *o = module_for(g->limits.loras[k], i, t, &is_whole);
		if (o)
			st = put_part(g, o, t, is_whole, &parts[k], fail);
		is_changed |= o != NULL;
	}
	if (st == OK && is_changed) {
		slot->w = t->w;
		st = graph_put(g, parts, n_bytes, &slot->part, fail);
	}
	free(parts);
	return st;
}

/* Parts for the experts of all layers, and the work memory that they need. *lows: vectors of the
 * largest rank that a token needs. */
static enum status alloc_experts(struct graph *g, size_t *lows, struct fail *fail)
{
	size_t high = 0, t = (size_t)g->limits.max_batch_tok;
	enum status st = OK;
	g->lora->experts = xcalloc((size_t)g->n_layers + 1, sizeof *g->lora->experts);
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		const struct moe *m = &g->layers[i].experts;
		size_t u = (size_t)m->n_used;
		if (!graph_lora_experts_has(g, i))
			continue;
		st = graph_lora_experts_fill(g, i, &g->lora->experts[i], fail);
		*lows = MAX(*lows, 2 * u);
		high = MAX(high, 2 * t * u * (size_t)m->dim * sizeof(float));
	}
	return st == OK && high ? graph_alloc(g, high, &g->lora->high, fail) : st;
}

enum status graph_lora_alloc(struct graph *g, struct fail *fail)
{
	if (!g->limits.n_loras)
		return OK;
	struct graph_lora *a = xcalloc(1, sizeof *a);
	size_t n_slots = (size_t)g->n_layers * LORA_TARGETS;
	a->slots = xcalloc(n_slots, sizeof *a->slots);
	g->lora = a;
	for (int i = 0; i < g->limits.n_loras; i++)
		a->rank = MAX(a->rank, g->limits.loras[i]->rank);
	size_t n_lows = LINEAR_MAX_OUT;
	enum status st = OK;
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		struct lora_target t[LORA_TARGETS];
		int n = graph_lora_targets(g, i, t);
		for (int k = 0; k < n && st == OK; k++) {
			st = fill_slot(g, i, &t[k], &a->slots[i * LORA_TARGETS + k], fail);
			n_lows = MAX(n_lows, (size_t)t[k].n_heads);
		}
	}
	if (st == OK)
		st = alloc_experts(g, &n_lows, fail);
	size_t low = (size_t)g->limits.max_batch_tok * n_lows * (size_t)a->rank;
	if (st == OK)
		st = graph_alloc(g, low * sizeof *a->low, &a->low, fail);
	if (g->measured)
		graph_lora_free(g);
	return st;
}

void graph_lora_free(struct graph *g)
{
	if (g->lora) {
		free(g->lora->slots);
		free(g->lora->experts);
	}
	free(g->lora);
	g->lora = NULL;
}

/* --- a step -------------------------------------------------------------------------------- */

/* The parts of the adapters that change weight w of layer l; NULL: none does. */
static const struct lora_part *parts_of(const struct graph *g, const struct layer *l,
					const struct weight *w)
{
	ptrdiff_t i = l - g->layers;
	for (int k = 0; i < g->n_layers && k < LORA_TARGETS; k++)
		if (g->lora->slots[i * LORA_TARGETS + k].w == w)
			return g->lora->slots[i * LORA_TARGETS + k].part;
	return NULL;
}

static bool has_adapters(const struct graph *g, const struct graph_step *s)
{
	return g->lora && s->b->has_lora;
}

/* What is alike in all lora_adds of the step. */
static struct lora_add_args begin_add(const struct graph *g, const struct graph_step *s)
{
	return (struct lora_add_args){.n_tok = s->b->n_tok, .n_out = 1, .adapter = s->ids.lora,
				      .scale = s->ids.lora_scale, .rank = g->lora->rank,
				      .low = g->lora->low};
}

/* Lists outputs of a for add, LINEAR_MAX_OUT in all. is_new: they are not there yet. True if an
 * adapter changes one. */
static bool list_outs(const struct graph *g, const struct layer *l, const struct linear_args *a,
		      bool is_new, struct lora_add_args *add)
{
	bool adds = false;
	assert(add->n_out + a->n_out <= LINEAR_MAX_OUT);
	for (int i = 0; i < a->n_out; i++) {
		const struct linear_out *o = &a->out[i];
		const struct lora_part *p = parts_of(g, l, o->w);
		add->out[add->n_out++] = (struct lora_out){.part = p, .y = o->y, .n = o->w->n,
							   .is_f32 = o->is_f32 || o->adds,
							   .is_new = is_new};
		adds |= p != NULL;
	}
	return adds;
}

/* Sets what the adapters of the step add to the outputs of a. False: nothing. */
static bool find_adds(const struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct linear_args *a, struct lora_add_args *out)
{
	if (!has_adapters(g, s))
		return false;
	*out = begin_add(g, s);
	out->n_out = 0;
	out->n_in = a->out[0].w->k;
	out->x = a->x;
	return list_outs(g, l, a, false, out);
}

/* The same for the outputs of beside, which then add to what add stores. */
static bool find_beside(const struct graph *g, const struct layer *l, const struct graph_step *s,
			struct linear_args *beside, struct lora_add_args *add)
{
	int n = add->n_out;
	if (!has_adapters(g, s))
		return false;
	if (!list_outs(g, l, beside, true, add)) {
		add->n_out = n;
		return false;
	}
	for (int i = 0; i < beside->n_out; i++)
		beside->out[i].adds = true;
	return true;
}

enum status graph_lora_add(struct graph *g, const struct layer *l, const struct graph_step *s,
			   const struct linear_args *a, struct fail *fail)
{
	struct lora_add_args add;
	enum status st = find_adds(g, l, s, a, &add) ? g->b->ops->lora_add(g->b, &add) : OK;
	return st == OK ? OK : graph_op_failed(g, "lora_add", a->n_tok, st, fail);
}

enum status graph_lora_heads(struct graph *g, const struct layer *l, const struct graph_step *s,
			     const struct graph_lora_heads *a, struct fail *fail)
{
	const struct lora_part *p = has_adapters(g, s) ? parts_of(g, l, a->target) : NULL;
	if (!p)
		return OK;
	struct lora_add_args add = begin_add(g, s);
	add.n_in = a->n_in;
	add.x = a->x;
	add.heads = (struct lora_heads){.n = a->n_heads, .x_pitch = a->x_pitch,
					.y_pitch = a->y_pitch,
					.a_step = a->is_transposed ? a->n_in : 0,
					.b_step = a->is_transposed ? 0 : a->n_out};
	add.out[0] = (struct lora_out){.part = p, .y = a->y, .n = a->n_out};
	enum status st = g->b->ops->lora_add(g->b, &add);
	return st == OK ? OK : graph_op_failed(g, "lora_add", add.n_tok, st, fail);
}

bool graph_lora_experts(const struct graph *g, const struct layer *l, const struct graph_step *s,
			struct moe_lora *out)
{
	ptrdiff_t i = l - g->layers;
	if (!has_adapters(g, s) || i >= g->n_layers || !g->lora->experts[i])
		return false;
	*out = (struct moe_lora){.part = g->lora->experts[i], .adapter = s->ids.lora,
				 .scale = s->ids.lora_scale, .rank = g->lora->rank,
				 .low = g->lora->low, .high = g->lora->high};
	return true;
}

/* linear, and what the adapters add to its outputs and to those of others that read x. What adds to
 * the residual stream does so first: then the router may run with the product. */
static enum status linear_with(struct graph *g, const struct linear_args *a,
			       const struct lora_add_args *add)
{
	bool is_first = a->out[0].adds && !a->norm;
	struct linear_args bare = *a;
	enum status st = is_first ? g->b->ops->lora_add(g->b, add) : OK;
	bare.act = NULL; /* it reads what adapters add to */
	bare.next = is_first ? a->next : NULL;
	if (st == OK)
		st = g->b->ops->linear(g->b, &bare);
	return st == OK && !is_first ? g->b->ops->lora_add(g->b, add) : st;
}

enum status graph_linear_beside(struct graph *g, const struct layer *l,
				const struct graph_step *s, const struct linear_args *a,
				struct linear_args *beside, struct fail *fail)
{
	struct lora_add_args add;
	int32_t t = a->n_tok;
	enum status st;
	bool adds = find_adds(g, l, s, a, &add);
	adds |= find_beside(g, l, s, beside, &add);
	if (!adds) {
		st = g->b->ops->linear(g->b, a);
		return st == OK ? OK : graph_op_failed(g, "linear", t, st, fail);
	}
	st = linear_with(g, a, &add);
	if (st != OK)
		return graph_op_failed(g, "linear with adapters", t, st, fail);
	if (a->act)
		RUN(act_mul, .n_tok = t, .dim = a->out[0].w->n, .act = *a->act,
		    .gate = a->out[0].y, .up = a->out[1].y, .y = a->out[0].y);
	return OK;
}

enum status graph_linear(struct graph *g, const struct layer *l, const struct graph_step *s,
			 const struct linear_args *a, struct fail *fail)
{
	struct linear_args none = {0};
	return graph_linear_beside(g, l, s, a, &none, fail);
}
