/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_launch.h"
#include "base/alloc.h"
#include "model/formats/weight_pages.h"

enum {
	ARRAY_ALIGN = 256,
	MAX_STAGES = 32,
	STAGES_BYTES = 256 << 20, /* most pinned memory for stages */
	WORK_TOK = 2048,          /* tokens that read an expert together */
};

/* Gate, up or down of expert e. The graph's, so the backend may change them. */
static struct weight *part(const struct experts *x, int32_t e, int i)
{
	const struct weight *w[MOE_PARTS] = {x->gate, x->up, x->down};
	return (struct weight *)(uintptr_t)&w[i][e];
}

/* --- the bytes of an expert --------------------------------------------------------- */

static void copy_rows(const struct hip_rows *r, uint8_t *to)
{
	for (size_t i = 0; i < r->n; i++)
		memcpy(to + i * r->pitch, (const char *)r->src + i * r->step, r->row_bytes);
}

/* Write one weight's arrays to `out`, which is zeroed, at the places that they have in the
 * layer's first expert. */
static enum status pack_part(struct hip *h, const struct weight *host,
			     const struct hip_slots_array *to, uint8_t *out,
			     struct fail *fail)
{
	struct weight_plan plan = hip_weight_plan(host);
	const struct hip_rows *rows = plan.array;
	enum status st = hip_weight_make(h, &plan);
	for (int i = 0; i < HIP_WEIGHT_ARRAYS && st == OK; i++) {
		bool fits = !rows[i].src || rows[i].pitch * rows[i].n == to[i].n_bytes;
		if (!fits)
			st = fail_at(fail, E_UNSUPPORTED, "expert_memory",
				     "%s has zero points and other experts have none, which "
				     "experts in a file cannot: leave expert_memory out",
				     host->name);
		else if (rows[i].src)
			copy_rows(&rows[i], out + to[i].at);
		else if (to[i].n_bytes) /* symmetric by chance: all zero points are 8 */
			memset(out + to[i].at, quant_bits(plan.to.quant) == 4 ? 0x88 : 0x80,
			       to[i].n_bytes);
	}
	free(plan.memory);
	weight_pages_give_back(host);
	return st;
}

/* The function for backend_experts.pack. */
static enum status pack(void *ctx, int32_t l, int32_t e, uint8_t *out, struct fail *fail)
{
	struct hip_slots *s = ctx;
	const struct hip_slots_layer *layer = s->layers[l];
	enum status st = OK;
	for (int i = 0; i < MOE_PARTS && st == OK; i++)
		st = pack_part(s->h, &layer->host[e * MOE_PARTS + i], layer->arrays[i], out,
			       fail);
	return st;
}

/* --- loading ------------------------------------------------------------------------ */

void hip_slots_begin(struct backend *b, const struct model *m)
{
	struct hip *h = hip_of(b);
	if (!b->expert_bytes)
		return;
	struct hip_slots *s = xcalloc(1, sizeof *s);
	s->h = h;
	s->all = (struct backend_experts){.b = b, .model = m, .dir = h->expert_dir,
					  .kind = "hip", .pack = pack, .ctx = s};
	s->next = h->slots;
	h->slots = s;
}

enum status hip_slots_weight(struct hip *h, const struct weight *host, struct weight *out,
			     struct fail *fail)
{
	struct hip_slots *s = h->slots;
	if (!host->is_mapped)
		return fail_at(fail, E_CONFIG, "expert_memory",
			       "expert_memory wants the model's files mapped: leave out "
			       "mmap = off");
	s->host = xrealloc(s->host, (s->n_host + 1) * sizeof *s->host);
	s->host[s->n_host++] = *host;
	*out = *host;
	return OK;
}

static bool is_alike(const struct weight *a, const struct weight *b)
{
	return a->quant == b->quant && a->n == b->n && a->k == b->k && a->group == b->group &&
	       a->scale_type == b->scale_type && a->group_n == b->group_n &&
	       !a->zero_points == !b->zero_points && !a->scales == !b->scales;
}

/* Plan the layout of part i from the layer's first expert. *at: where the part begins, and on
 * return where it ends. The weights of all experts get this layout. */
static enum status plan_part(struct hip_slots_layer *l, int i, size_t *at, struct fail *fail)
{
	const struct weight *first = &l->host[i];
	struct weight_plan plan = hip_weight_plan(first);
	enum status st = hip_weight_make(l->of->h, &plan);
	for (int j = 0; j < HIP_WEIGHT_ARRAYS && st == OK; j++) {
		const struct hip_rows *r = &plan.array[j];
		size_t n = r->src ? r->pitch * r->n : 0;
		l->arrays[i][j] = (struct hip_slots_array){*at, n};
		*at = ROUND_UP(*at + n, ARRAY_ALIGN);
	}
	free(plan.memory);
	for (int32_t e = 0; e < l->experts->n && st == OK; e++) {
		const struct weight *host = &l->host[e * MOE_PARTS + i];
		struct weight *out = part(l->experts, e, i);
		if (!is_alike(host, first))
			st = fail_at(fail, E_UNSUPPORTED, "expert_memory",
				     "%s: experts of a layer in different formats cannot be "
				     "read from a file; leave expert_memory out", host->name);
		/* Its pointers only tell which arrays it has; nothing is read there. */
		*out = plan.to;
		out->name = host->name;
		out->global_scale = out->quant == QUANT_NVFP4 ? blocks_factor(host) : 0;
	}
	return st;
}

enum status hip_slots_layer(struct hip *h, struct experts *out, struct hip_experts *x,
			    struct fail *fail)
{
	struct hip_slots *s = h->slots;
	struct hip_slots_layer *l = xcalloc(1, sizeof *l);
	*l = (struct hip_slots_layer){s, out, x, s->all.n_layers, s->all.n, s->host, {{{0, 0}}}};
	s->host = NULL;
	s->n_host = 0;
	size_t at = 0;
	enum status st = OK;
	for (int i = 0; i < MOE_PARTS && st == OK; i++)
		st = plan_part(l, i, &at, fail);
	uint64_t *n_bytes = xcalloc((size_t)out->n, sizeof *n_bytes);
	for (int32_t e = 0; e < out->n; e++)
		n_bytes[e] = ROUND_UP(at, EXPERT_ALIGN);
	backend_experts_add(&s->all, n_bytes, out->n);
	free(n_bytes);
	s->layers = xrealloc(s->layers, (size_t)s->all.n_layers * sizeof(void *));
	s->layers[s->all.n_layers - 1] = l;
	x->slots = l;
	return st;
}

/* --- filling slots ------------------------------------------------------------------ */

static uint8_t *stages_of(const struct hip_slots *s)
{
	return (uint8_t *)s->pinned + (size_t)(-(uintptr_t)s->pinned % EXPERT_ALIGN);
}

static enum status hip_slots_tell(struct hip *h, enum status st, struct fail *fail)
{
	return st == OK ? OK : fail_set(fail, st, "%.100s: experts: %.200s", h->base.device,
					h->failure);
}

/* The weights of expert e of the layer, where they lie in its slot. */
static void view_slot(const struct hip_slots_layer *l, int32_t e, int32_t slot,
		      struct weight_view views[MOE_PARTS])
{
	char *to = l->of->slots + (size_t)slot * l->of->slot_bytes;
	for (int p = 0; p < MOE_PARTS; p++) {
		const struct hip_slots_array *at = l->arrays[p];
		struct weight w = *part(l->experts, e, p);
		w.q = to + at[0].at;
		w.scales = at[1].n_bytes ? to + at[1].at : NULL;
		w.zero_points = at[2].n_bytes ? to + at[2].at : NULL;
		views[p] = hip_view(&w);
	}
}

/* The function for expert_device.put. It queues the copy of the expert's bytes, and then that of
 * its rows of the table. */
static enum status hip_slots_put(void *ctx, int32_t e, int32_t slot, int32_t stage, size_t n,
				 struct fail *fail)
{
	struct hip_slots *s = ctx;
	struct hip *h = s->h;
	struct weight_view views[MOE_PARTS];
	int32_t i = 0;
	while (i + 1 < s->all.n_layers && s->all.first[i + 1] <= e)
		i++;
	const struct hip_slots_layer *l = s->layers[i];
	char *to = s->slots + (size_t)slot * s->slot_bytes;
	view_slot(l, e - l->first, slot, views);
	enum status st = hip_send(h, to, stages_of(s) + (size_t)stage * s->slot_bytes, n);
	if (st == OK)
		hip_mark_put(h, &s->copied[stage]);
	size_t row = (size_t)(e - l->first) * MOE_PARTS;
	if (st == OK)
		st = hip_upload(&h->base, (struct weight_view *)(uintptr_t)l->x->table + row,
				views, sizeof views);
	return hip_slots_tell(h, st, fail);
}

/* The function for expert_device.wait. The next operation reports a failure. */
static void wait(void *ctx, int32_t stage)
{
	struct hip_slots *s = ctx;
	(void)!hip_mark_wait(s->h, &s->copied[stage], "copying an expert");
}

static enum status take_memory(struct hip_slots *s, const struct expert_memory_opts *o,
			       size_t work)
{
	struct hip *h = s->h;
	void *p = NULL;
	enum status st = hip_arena_take(h, &h->weights,
					(size_t)o->n_slots * o->slot_bytes, &p);
	s->slots = p;
	if (st == OK && work > h->work_bytes) {
		hip_free(&h->base, h->work);
		h->work = NULL;
		st = hip_alloc(&h->base, work, &h->work);
		h->work_bytes = work;
	}
	if (st == OK)
		st = hip_check(h, h->api.hipHostMalloc((void **)&s->pinned,
			(size_t)s->n_stages * o->slot_bytes + EXPERT_ALIGN, 0),
			"pinned memory");
	s->copied = xcalloc((size_t)s->n_stages, sizeof *s->copied);
	for (int32_t i = 0; i < s->n_stages && st == OK; i++) {
		hip_mark_create(h, &s->copied[i]);
		hip_mark_put(h, &s->copied[i]); /* a wait for an unused stage returns at once */
	}
	return st;
}

/* Bytes of work memory with which WORK_TOK tokens are one batch. */
static size_t work_wanted(const struct hip_slots *s)
{
	const struct experts *e = s->layers[0]->experts;
	size_t n_slots = (size_t)s->all.model->config.n_experts_used + 1;
	return hip_experts_work_bytes(WORK_TOK, n_slots, (size_t)e->n + 1, (size_t)e->gate[0].k);
}

enum status hip_slots_end(struct backend *b, struct fail *fail)
{
	struct hip *h = hip_of(b);
	struct hip_slots *s = h->slots;
	struct expert_memory_opts o = {.slot_bytes = 0};
	if (!b->expert_bytes || s->all.n == 0)
		return OK;
	size_t wanted = work_wanted(s), work = MAX(wanted, h->work_bytes);
	enum status st = backend_experts_count(&s->all, work - h->work_bytes, &o, fail);
	if (st != OK)
		return st;
	s->slot_bytes = o.slot_bytes;
	s->n_stages = (int32_t)MAX(MIN(MIN(STAGES_BYTES / o.slot_bytes, MAX_STAGES),
				       (size_t)o.n_slots), 2);
	st = hip_slots_tell(h, take_memory(s, &o, work), fail);
	const struct expert_device device = {stages_of(s), s->n_stages, hip_slots_put, wait, s};
	o.device = &device;
	if (st == OK)
		st = backend_experts_open(&s->all, &o, fail);
	for (int32_t l = 0; l < s->all.n_layers; l++) {
		for (int32_t i = 0; i < s->layers[l]->experts->n * MOE_PARTS; i++)
			weight_pages_give_back(&s->layers[l]->host[i]);
		free(s->layers[l]->host);
		s->layers[l]->host = NULL;
	}
	s->has_all = st == OK && o.n_slots == s->all.n;
	return st;
}

static void destroy_slots(struct hip_slots *s)
{
	struct hip *h = s->h;
	backend_experts_deinit(&s->all);
	for (int32_t i = 0; i < s->n_stages && s->copied; i++)
		hip_mark_destroy(h, &s->copied[i]);
	if (s->pinned)
		h->api.hipHostFree(s->pinned);
	for (int32_t l = 0; l < s->all.n_layers; l++) {
		free(s->layers[l]->host);
		free(s->layers[l]);
	}
	hip_slots_scratch_free(s);
	free(s->layers);
	free(s->host);
	free(s->copied);
	free(s);
}

void hip_slots_destroy(struct hip *h)
{
	while (h->slots) {
		struct hip_slots *s = h->slots;
		h->slots = s->next;
		destroy_slots(s);
	}
}
