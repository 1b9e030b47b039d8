/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph_lora.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"
#include "model/lora.h"

enum { MAX_TARGETS = 10 }; /* linear layers of a layer that take adapters */

/* A linear layer W (N, K) that takes adapters. */
struct lora_target {
	char name[80];
	const struct weight *w;
	int32_t n, k;
	/* The module that has it as its rows from `first` on, of `all`, where adapters are trained
	 * on a model that has several in one. "": none. */
	char fused[80];
	int32_t first, all;
};

struct lora_slot {
	const struct weight *w;
	struct lora_part *part; /* on the device, of each adapter; NULL: none changes w */
};

struct graph_lora {
	struct lora_slot *slots; /* (n_layers, MAX_TARGETS) */
	int32_t rank;            /* the largest */
	float *low;              /* work of lora_add */
};

/* --- which modules ------------------------------------------------------------------------ */

static struct lora_target *add_attention(const struct graph *g, int i, struct lora_target *t)
{
	const struct attention *a = &g->layers[i].attention;
	int32_t nq = a->n_heads * a->head_dim, nkv = a->n_kv_heads * a->head_dim;
	int32_t all = nq + 2 * nkv, d = g->dim;
	static const char fused[] = "self_attn.qkv_proj";
	bool is_own = a->kv_layer == i;
	const struct {
		bool is_here, is_fused;
		struct lora_target target;
	} rows[] = {
		{true, !a->is_gated, {"self_attn.q_proj", &a->q, a->is_gated ? 2 * nq : nq, d, "",
				      0, all}},
		{is_own, true, {"self_attn.k_proj", &a->k, nkv, d, "", nq, all}},
		{is_own && a->has_v, true, {"self_attn.v_proj", &a->v, nkv, d, "", nq + nkv, all}},
		{true, false, {"self_attn.o_proj", &a->o, d, nq, "", 0, 0}},
	};
	for (size_t r = 0; r < ARRAY_LEN(rows) && a->n_heads; r++)
		if (rows[r].is_here) {
			*t = rows[r].target;
			snprintf(t->fused, sizeof t->fused, "%s", rows[r].is_fused ? fused : "");
			t++;
		}
	return t;
}

static struct lora_target *add_mlp(const struct graph *g, const struct mlp *m,
				   struct lora_target *t)
{
	const struct {
		const char *part;
		struct lora_target target;
	} rows[] = {
		{"gate", {"", &m->gate, m->dim, g->dim, "", 0, 2 * m->dim}},
		{"up", {"", &m->up, m->dim, g->dim, "", m->dim, 2 * m->dim}},
		{"down", {"", &m->down, g->dim, m->dim, "", 0, 0}},
	};
	for (size_t r = m->is_ungated; r < ARRAY_LEN(rows) && m->dim; r++) {
		*t = rows[r].target;
		snprintf(t->name, sizeof t->name, "%.60s.%s_proj", m->name, rows[r].part);
		if (t->all && !m->is_ungated)
			snprintf(t->fused, sizeof t->fused, "%.60s.gate_up_proj", m->name);
		t++;
	}
	return t;
}

/* The linear layers of layer i that take adapters; how many there are. */
static int targets_of(const struct graph *g, int i, struct lora_target out[MAX_TARGETS])
{
	const struct layer *l = &g->layers[i];
	struct lora_target *t = add_attention(g, i, out);
	t = add_mlp(g, &l->mlp, t);
	if (l->experts.shared_is_apart)
		t = add_mlp(g, &l->experts.shared, t);
	return (int)(t - out);
}

/* The module of the adapter for a target. *first: the row where it begins in the module. NULL: it
 * has none. */
static const struct lora_module *module_for(const struct lora *l, int i,
					    const struct lora_target *t, int32_t *n,
					    int32_t *first)
{
	const struct lora_module *o = lora_find(l, i, t->name);
	*n = t->n;
	*first = 0;
	if (o || !*t->fused)
		return o;
	*n = t->all;
	*first = t->first;
	return lora_find(l, i, t->fused);
}

static enum status fail_shape(const struct lora *l, const struct lora_module *o, int32_t n,
			      int32_t k, struct fail *fail)
{
	return fail_at(fail, E_CONFIG, "lora", "%.120s: %.80s is for a layer of %d inputs and %d "
		       "outputs, and this model's has %d and %d: the adapter was made for another "
		       "base model", l->path, o->file_name, (int)o->k, (int)o->n, (int)k, (int)n);
}

static enum status fail_twice(const struct lora *l, int i, const struct lora_target *t,
			      struct fail *fail)
{
	return fail_at(fail, E_UNSUPPORTED, "lora", "%.120s: %.80s and %.80s are matrices for the "
		       "same rows: an adapter has one of them", l->path,
		       lora_find(l, i, t->name)->file_name, lora_find(l, i, t->fused)->file_name);
}

/* Why the model does not take a module. */
static const char *why_not(const struct graph *g, const struct lora_module *o)
{
	if (o->layer >= g->n_layers)
		return "the model has no such layer: the adapter was made for another base model";
	if (strstr(o->name, "expert"))
		return "adapters of experts are not supported";
	if (strstr(o->name, "embed") || strstr(o->name, "lm_head") || strstr(o->name, "output."))
		return "adapters of the embedding and of the output head are not supported";
	if (o->layer < 0)
		return "it is no part of the text model's layers";
	return "this model has no linear layer of that name that takes adapters (q_proj, k_proj, "
	       "v_proj and o_proj of attention, gate_proj, up_proj and down_proj of dense "
	       "feed-forward parts)";
}

static enum status match_one(const struct graph *g, const struct lora *l, struct fail *fail)
{
	bool *is_taken = xcalloc(l->n_modules + 1, sizeof *is_taken);
	enum status st = OK;
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		struct lora_target t[MAX_TARGETS];
		int n = targets_of(g, i, t);
		for (int k = 0; k < n && st == OK; k++) {
			int32_t rows, first;
			const struct lora_module *o = module_for(l, i, &t[k], &rows, &first);
			if (o && *t[k].fused && lora_find(l, i, t[k].name) &&
			    lora_find(l, i, t[k].fused))
				st = fail_twice(l, i, &t[k], fail);
			else if (o && (o->n != rows || o->k != t[k].k))
				st = fail_shape(l, o, rows, t[k].k, fail);
			if (o)
				is_taken[o - l->modules] = true;
		}
	}
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

static enum lora_type type_of(enum dtype t)
{
	return t == DTYPE_F16 ? LORA_F16 : t == DTYPE_BF16 ? LORA_BF16 : LORA_F32;
}

/* (N, R) to (R, N). A number has 2 or 4 bytes. */
static void turn(const void *from, size_t n, size_t rank, size_t bytes, void *to)
{
	for (size_t i = 0; i < n; i++)
		for (size_t r = 0; r < rank; r++)
			memcpy((char *)to + (r * n + i) * bytes,
			       (const char *)from + (i * rank + r) * bytes, bytes);
}

/* Puts A and B of a module on the device: of B the rows of the target, transposed. */
static enum status put_part(struct graph *g, const struct lora_module *o,
			    const struct lora_target *t, int32_t first, struct lora_part *out,
			    struct fail *fail)
{
	size_t rank = (size_t)o->rank, n = (size_t)t->n, k = (size_t)t->k;
	size_t bytes = dtype_bytes(o->type), n_a = rank * k * bytes, n_b = rank * n * bytes;
	void *a, *b;
	const struct graph_want wanted[] = {{&a, n_a}, {&b, n_b}};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st != OK || g->measured)
		return st;
	void *turned = xmalloc(n_b);
	turn((const char *)o->b + (size_t)first * rank * bytes, n, rank, bytes, turned);
	st = g->b->ops->upload(g->b, a, o->a, n_a);
	if (st == OK)
		st = g->b->ops->upload(g->b, b, turned, n_b);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, fail);
	free(turned);
	*out = (struct lora_part){a, b, o->rank, o->scale,
				  (int32_t)type_of(o->type), 0};
	return st;
}

/* Fills the slot of a target with the parts of all adapters that change it. */
static enum status fill_slot(struct graph *g, int i, const struct lora_target *t,
			     struct lora_slot *slot, struct fail *fail)
{
	size_t n_loras = (size_t)g->limits.n_loras, n_bytes = n_loras * sizeof(struct lora_part);
	struct lora_part *parts = xcalloc(n_loras, sizeof *parts), *on;
	enum status st = OK;
	bool is_changed = false;
	for (size_t k = 0; k < n_loras && st == OK; k++) {
		int32_t rows, first;
		const struct lora_module *o = module_for(g->limits.loras[k], i, t, &rows, &first);
		if (o)
			st = put_part(g, o, t, first, &parts[k], fail);
		is_changed |= o != NULL;
	}
	if (st == OK && is_changed)
		st = graph_alloc(g, n_bytes, &on, fail);
	if (st == OK && is_changed && !g->measured) {
		st = g->b->ops->upload(g->b, on, parts, n_bytes);
		if (st == OK)
			st = g->b->ops->sync(g->b, fail);
		*slot = (struct lora_slot){t->w, on};
	}
	free(parts);
	return st;
}

enum status graph_lora_alloc(struct graph *g, struct fail *fail)
{
	if (!g->limits.n_loras)
		return OK;
	struct graph_lora *a = xcalloc(1, sizeof *a);
	size_t n_slots = (size_t)g->n_layers * MAX_TARGETS;
	a->slots = xcalloc(n_slots, sizeof *a->slots);
	g->lora = a;
	for (int i = 0; i < g->limits.n_loras; i++)
		a->rank = MAX(a->rank, g->limits.loras[i]->rank);
	size_t low = (size_t)g->limits.max_batch_tok * LINEAR_MAX_OUT * (size_t)a->rank;
	enum status st = graph_alloc(g, low * sizeof *a->low, &a->low, fail);
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		struct lora_target t[MAX_TARGETS];
		int n = targets_of(g, i, t);
		for (int k = 0; k < n && st == OK; k++)
			st = fill_slot(g, i, &t[k], &a->slots[i * MAX_TARGETS + k], fail);
	}
	if (g->measured)
		graph_lora_free(g);
	return st;
}

void graph_lora_free(struct graph *g)
{
	if (g->lora)
		free(g->lora->slots);
	free(g->lora);
	g->lora = NULL;
}

/* --- a step -------------------------------------------------------------------------------- */

/* The parts of the adapters that change weight w of layer l; NULL: none does. */
static const struct lora_part *parts_of(const struct graph *g, const struct layer *l,
					const struct weight *w)
{
	ptrdiff_t i = l - g->layers;
	for (int k = 0; i < g->n_layers && k < MAX_TARGETS; k++)
		if (g->lora->slots[i * MAX_TARGETS + k].w == w)
			return g->lora->slots[i * MAX_TARGETS + k].part;
	return NULL;
}

/* Sets what the adapters of the step add to the outputs of a. False: nothing. */
static bool find_adds(const struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct linear_args *a, struct lora_add_args *out)
{
	bool adds = false;
	if (!g->lora || !s->b->has_lora)
		return false;
	*out = (struct lora_add_args){.n_tok = a->n_tok, .n_in = a->out[0].w->k, .x = a->x,
				      .n_out = a->n_out, .adapter = s->ids.lora,
				      .scale = s->ids.lora_scale, .rank = g->lora->rank,
				      .low = g->lora->low};
	for (int i = 0; i < a->n_out; i++) {
		const struct linear_out *o = &a->out[i];
		const struct lora_part *p = parts_of(g, l, o->w);
		out->out[i] = (struct lora_out){p, o->y, o->w->n, o->is_f32 || o->adds};
		adds |= p != NULL;
	}
	return adds;
}

enum status graph_linear(struct graph *g, const struct layer *l, const struct graph_step *s,
			 const struct linear_args *a, struct fail *fail)
{
	struct lora_add_args add;
	struct linear_args bare = *a;
	int32_t t = a->n_tok;
	enum status st;
	if (!find_adds(g, l, s, a, &add)) {
		st = g->b->ops->linear(g->b, a);
		return st == OK ? OK : graph_op_failed(g, "linear", t, st, fail);
	}
	/* The adapters read what the norm makes, and the activation reads what they add to. So
	 * these are operations of their own here, with the same bits (linear.h). */
	bare.norm = NULL;
	bare.act = NULL;
	bare.next = NULL;
	st = a->norm ? g->b->ops->rms_norm(g->b, a->norm) : OK;
	if (st == OK)
		st = g->b->ops->linear(g->b, &bare);
	if (st == OK)
		st = g->b->ops->lora_add(g->b, &add);
	if (st != OK)
		return graph_op_failed(g, "linear with adapters", t, st, fail);
	if (a->act)
		RUN(act_mul, .n_tok = t, .dim = a->out[0].w->n, .act = *a->act,
		    .gate = a->out[0].y, .up = a->out[1].y, .y = a->out[0].y);
	return OK;
}
