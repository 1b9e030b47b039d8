/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cpu/cpu_experts.h"

#include <stdlib.h>

#include "backend/cpu/cpu_moe.h"
#include "backend/cpu/cpu_panels.h"
#include "base/alloc.h"
#include "model/formats/weight_pages.h"

enum { PARTS = 3, PART_ALIGN = 64 };

struct cpu_experts {
	struct cpu_experts *next;
	struct cpu *c;
	struct backend_experts all;
	struct cpu_expert_layer **layers; /* (all.n_layers) */
	bool has_all; /* every expert has a slot, and has been read */
};

struct cpu_expert_layer *cpu_experts_of(const struct backend *b, const struct experts *e)
{
	(void)b;
	/* for experts that stay in memory, e->device is any address: see cpu_load_experts */
	struct cpu_expert_layer *l = (void *)(uintptr_t)e->device;
	return e->device == e->gate || l->of->has_all ? NULL : l;
}

struct expert_memory *cpu_experts_memory(const struct cpu_expert_layer *l)
{
	return l->of->all.memory;
}

/* --- the bytes of an expert --------------------------------------------------------- */

/* Weight i of expert e: gate, up or down. The backend made them, so it may change them. */
static struct weight *part(const struct experts *x, int32_t e, int i)
{
	const struct weight *w[PARTS] = {x->gate, x->up, x->down};
	return (struct weight *)(uintptr_t)&w[i][e];
}

static size_t part_bytes(const struct weight *w)
{
	return w->packed ? cpu_panels_bytes(w->packed) : (size_t)w->n * weight_row_bytes(w);
}

static size_t expert_bytes(const struct experts *x, int32_t e)
{
	size_t n = 0;
	for (int i = 0; i < PARTS; i++)
		n = ROUND_UP(n, PART_ALIGN) + part_bytes(part(x, e, i));
	return ROUND_UP(n, EXPERT_ALIGN);
}

static enum status pack_part(struct cpu *c, const struct weight *w, uint8_t *out,
			     struct fail *fail)
{
	if (!w->packed)
		memcpy(out, w->q, part_bytes(w));
	else if (!cpu_panels_fill(c->pool, w, w->packed, out))
		return fail_at(fail, E_UNSUPPORTED, "expert_memory",
			       "%s holds NaN, which an expert in a file cannot: leave "
			       "expert_memory out", w->name);
	return OK;
}

/* The function for backend_experts.pack. */
static enum status pack(void *ctx, int32_t l, int32_t e, uint8_t *out, struct fail *fail)
{
	struct cpu_experts *s = ctx;
	const struct experts *x = s->layers[l]->experts;
	size_t at = 0;
	enum status st = OK;
	for (int p = 0; p < PARTS && st == OK; p++) {
		const struct weight *w = part(x, e, p);
		at = ROUND_UP(at, PART_ALIGN);
		st = pack_part(s->c, w, out + at, fail);
		at += part_bytes(w);
		weight_pages_give_back(w);
	}
	return st;
}

void cpu_experts_attach(const struct cpu_expert_layer *l, int32_t e)
{
	const uint8_t *p = expert_memory_at(l->of->all.memory, e);
	size_t at = 0;
	for (int i = 0; i < PARTS; i++) {
		struct weight *w = part(l->experts, e - l->first, i);
		at = ROUND_UP(at, PART_ALIGN);
		if (w->packed)
			((struct cpu_panels *)(uintptr_t)w->packed)->data = p + at;
		else
			w->q = p + at;
		at += part_bytes(w);
	}
}

void cpu_experts_use(const struct cpu_expert_layer *l, struct backend *b, int32_t *e,
		     int32_t n)
{
	backend_experts_use(&l->of->all, l->i, ((struct cpu *)b)->n_steps, e, n);
}

void cpu_experts_prefetch(const struct cpu_expert_layer *l, struct backend *b,
			  const struct moe_ahead *ahead)
{
	struct expert_memory *m = l->of->all.memory;
	if (!ahead || !expert_memory_wants(m))
		return;
	const struct moe_router_args *r = &ahead->router;
	const struct cpu_expert_layer *next = cpu_experts_of(b, ahead->experts);
	if (!next || cpu_moe_router(b, r) != OK)
		return;
	int32_t n = r->n_tok * r->n_used;
	for (int32_t i = 0; i < n; i++)
		r->id[i] += next->first;
	expert_memory_prefetch(m, r->id, n);
}

/* --- loading ------------------------------------------------------------------------ */

void cpu_experts_begin(struct cpu *c, const struct model *m)
{
	struct cpu_experts *s = xcalloc(1, sizeof *s);
	s->c = c;
	s->all = (struct backend_experts){.b = &c->base, .model = m, .dir = c->expert_dir,
					  .kind = c->isa->name, .pack = pack, .ctx = s};
	s->next = c->experts;
	c->experts = s;
}

enum status cpu_experts_weight(struct cpu *c, const struct weight *host, struct weight *out,
			       struct fail *fail)
{
	if (!host->is_mapped)
		return fail_at(fail, E_CONFIG, "expert_memory",
			       "expert_memory wants the model's files mapped: leave out "
			       "mmap = off");
	(void)cpu_weight_plan(c, host, out); /* if false: rows, or cpu_experts_layer refuses */
	return OK;
}

enum status cpu_experts_layer(struct cpu *c, struct experts *out, struct fail *fail)
{
	struct cpu_experts *s = c->experts;
	if (!cpu_moe_fast_can(&c->base, out))
		return fail_at(fail, E_UNSUPPORTED, "expert_memory",
			       "%s: experts of this format cannot be read from a file; leave "
			       "expert_memory out", out->gate->name ? out->gate->name
								    : "experts");
	struct cpu_expert_layer *l = arena_alloc(&c->kept, sizeof *l);
	*l = (struct cpu_expert_layer){s, out, s->all.n_layers, s->all.n};
	uint64_t *n_bytes = xcalloc((size_t)out->n, sizeof *n_bytes);
	for (int32_t e = 0; e < out->n; e++)
		n_bytes[e] = expert_bytes(out, e);
	backend_experts_add(&s->all, n_bytes, out->n);
	free(n_bytes);
	s->layers = xrealloc(s->layers, (size_t)s->all.n_layers * sizeof(void *));
	s->layers[s->all.n_layers - 1] = l;
	out->device = l;
	return OK;
}

enum status cpu_experts_end(struct cpu *c, struct fail *fail)
{
	struct cpu_experts *s = c->experts;
	struct expert_memory_opts o = {.slot_bytes = 0};
	if (s->all.n == 0)
		return OK;
	enum status st = backend_experts_count(&s->all, 0, &o, fail);
	if (st == OK)
		st = backend_experts_open(&s->all, &o, fail);
	for (int32_t l = 0; l < s->all.n_layers; l++)
		for (int32_t e = 0; e < s->layers[l]->experts->n * PARTS; e++)
			weight_pages_give_back(part(s->layers[l]->experts, e / PARTS, e % PARTS));
	s->has_all = st == OK && o.n_slots == s->all.n;
	for (int32_t l = 0; l < s->all.n_layers && s->has_all; l++)
		for (int32_t e = 0; e < s->layers[l]->experts->n; e++)
			cpu_experts_attach(s->layers[l], s->layers[l]->first + e);
	return st;
}

void cpu_experts_free(struct cpu *c)
{
	while (c->experts) {
		struct cpu_experts *s = c->experts;
		c->experts = s->next;
		backend_experts_deinit(&s->all);
		free(s->layers);
		free(s);
	}
}
