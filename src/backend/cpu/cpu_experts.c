/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#include "backend/cpu/cpu_experts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "backend/cpu/cpu_moe.h"
#include "backend/cpu/cpu_panels.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/sum.h"

enum { PARTS = 3, PART_ALIGN = 64 };

struct cpu_experts {
	struct cpu_experts *next;
	struct cpu *c;
	const struct model *model; /* while loading */
	struct cpu_expert_layer **layers; /* (n_layers) with experts */
	int32_t n_layers, n;       /* n: experts of all layers */
	uint64_t *n_bytes;         /* (n) in the store */
	struct expert_memory *memory;
	uint64_t step_before;
};

static size_t up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

struct cpu_expert_layer *cpu_experts_of(const struct backend *b, const struct experts *e)
{
	(void)b;
	/* of experts that stay it is any address: see cpu_load_experts */
	return e->device == e->gate ? NULL : (void *)(uintptr_t)e->device;
}

struct expert_memory *cpu_experts_memory(const struct cpu_expert_layer *l)
{
	return l->of->memory;
}

/* --- the bytes of an expert --------------------------------------------------------- */

/* Which of gate, up and down of expert e. The backend made them, so it may change them. */
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
		n = up(n, PART_ALIGN) + part_bytes(part(x, e, i));
	return up(n, EXPERT_ALIGN);
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

/* expert_store_plan.fill, and the check that a store is what would be made now. */
static enum status pack(void *ctx, int32_t i, uint8_t *out, struct fail *fail)
{
	struct cpu_experts *s = ctx;
	int32_t l = 0;
	while (l + 1 < s->n_layers && s->layers[l + 1]->first <= i)
		l++;
	const struct experts *x = s->layers[l]->experts;
	int32_t e = i - s->layers[l]->first;
	size_t at = 0;
	enum status st = OK;
	for (int p = 0; p < PARTS && st == OK; p++) {
		const struct weight *w = part(x, e, p);
		at = up(at, PART_ALIGN);
		st = pack_part(s->c, w, out + at, fail);
		at += part_bytes(w);
		cpu_weight_give_back(w);
	}
	if (st == OK && s->c->base.on_stored)
		s->c->base.on_stored(s->c->base.on_stored_ctx, s->n_bytes[i]);
	return st;
}

void cpu_experts_attach(const struct cpu_expert_layer *l, int32_t e)
{
	const uint8_t *p = expert_memory_at(l->of->memory, e);
	size_t at = 0;
	for (int i = 0; i < PARTS; i++) {
		struct weight *w = part(l->experts, e - l->first, i);
		at = up(at, PART_ALIGN);
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
	uint64_t step = ((struct cpu *)b)->n_steps;
	for (int32_t i = 0; i < n; i++)
		e[i] += l->first;
	expert_memory_use(l->of->memory, e, n, step != l->of->step_before);
	l->of->step_before = step;
}

/* --- loading ------------------------------------------------------------------------ */

void cpu_experts_begin(struct cpu *c, const struct model *m)
{
	struct cpu_experts *s = xcalloc(1, sizeof *s);
	s->c = c;
	s->model = m;
	s->next = c->experts;
	c->experts = s;
}

enum status cpu_experts_weight(struct cpu *c, const struct weight *host, struct weight *out,
			       struct fail *fail)
{
	if (!host->is_mapped)
		return fail_at(fail, E_CONFIG, "expert_memory",
			       "expert_memory wants the model's files mapped: leave out "
			       "mmap = no");
	(void)cpu_weight_plan(c, host, out); /* else rows, or cpu_experts_layer refuses */
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
	*l = (struct cpu_expert_layer){s, out, s->n};
	size_t n_layers = (size_t)s->n_layers + 1;
	s->layers = xrealloc(s->layers, n_layers * sizeof *s->layers);
	s->layers[s->n_layers++] = l;
	s->n_bytes = xrealloc(s->n_bytes,
			      ((size_t)s->n + (size_t)out->n) * sizeof *s->n_bytes);
	for (int32_t e = 0; e < out->n; e++)
		s->n_bytes[s->n++] = expert_bytes(out, e);
	out->device = l;
	return OK;
}

/* Folder and name of the store: FOLDER/MODEL-HASH-ISA.halod-experts, as the cache of
 * packed weights is called. */
static char *path_of(const struct cpu_experts *s)
{
	char *real = realpath(s->model->dir, NULL);
	const char *model = real ? real : s->model->dir;
	size_t n = strlen(model);
	while (n > 1 && model[n - 1] == '/')
		n--;
	size_t name = n;
	while (name > 0 && model[name - 1] != '/')
		name--;
	struct stat st;
	bool is_folder = stat(model, &st) == 0 && S_ISDIR(st.st_mode);
	char *beside = xstrndup(model, is_folder ? n : MAX(name, 1));
	char *file = xasprintf("%.*s-%08x-%s" EXPERT_STORE_SUFFIX, (int)MIN(n - name, 80),
			       model + name, (unsigned)(sum_bytes(model, n) >> 32),
			       s->c->isa->name);
	char *out = file_join(s->c->expert_dir ? s->c->expert_dir : beside, file);
	free(real);
	free(beside);
	free(file);
	return out;
}

/* What the contents depend on: version, instruction set, the model's files, the sizes. */
static void add_key(const struct cpu_experts *s, struct buf *out)
{
	uint64_t sizes = sum_bytes(s->n_bytes, (size_t)s->n * sizeof *s->n_bytes);
	buf_addf(out, "halod %s\nisa %s\nsizes %016llx\n", PACKAGE_VERSION, s->c->isa->name,
		 (unsigned long long)sizes);
	tensors_list_files(s->model->tensors, out);
}

/* Are the first experts of each layer what would be stored now? The code that packs may
 * have changed. */
static bool is_current(struct cpu_experts *s, const struct expert_store *store)
{
	bool is_same = true;
	for (int32_t l = 0; l < s->n_layers && is_same; l++) {
		int32_t i = s->layers[l]->first;
		size_t n = s->n_bytes[i];
		uint8_t *made = xcalloc(1, n);
		is_same = store->entries[i].n_bytes == n && pack(s, i, made, NULL) == OK &&
			  sum_bytes(made, n) == store->entries[i].sum;
		free(made);
	}
	return is_same;
}

static enum status make_store(struct cpu_experts *s, const char *path, struct str key,
			      const char *why, struct fail *fail)
{
	double bytes = 0;
	for (int32_t i = 0; i < s->n; i++)
		bytes += (double)s->n_bytes[i];
	log_info("making the expert store %s, %.2f GB%s%s", path, bytes * 1e-9,
		 why ? ": " : "", why ? why : "");
	return expert_store_make(&(struct expert_store_plan){
		.path = path, .key = key, .n = s->n, .n_bytes = s->n_bytes, .fill = pack,
		.ctx = s}, fail);
}

static enum status open_store(struct cpu_experts *s, const char *path,
			      struct expert_store *out, struct fail *fail)
{
	struct buf key = {0};
	struct fail why = {0};
	add_key(s, &key);
	if (s->c->expert_dir && mkdir(s->c->expert_dir, 0777) != 0 && errno != EEXIST)
		log_warn("%s: %s", s->c->expert_dir, strerror(errno));
	enum status st = expert_store_open(path, buf_str(&key), s->n, out, &why);
	if (st == OK && !is_current(s, out)) {
		expert_store_close(out);
		st = fail_set(&why, E_FORMAT, "it is of another version");
	}
	if (st != OK) {
		st = make_store(s, path, buf_str(&key), st == E_MISSING ? NULL : why.text,
				fail);
		if (st == OK)
			st = expert_store_open(path, buf_str(&key), s->n, out, fail);
	}
	buf_deinit(&key);
	return st;
}

/* Two steps of slots: while one wave of experts computes, the next one is read. */
static enum status count_slots(const struct cpu_experts *s, struct expert_memory_opts *o,
			       struct fail *fail)
{
	int64_t budget = s->c->base.expert_bytes;
	for (int32_t i = 0; i < s->n; i++)
		o->slot_bytes = MAX(o->slot_bytes, s->n_bytes[i]);
	int64_t n = budget / (int64_t)o->slot_bytes;
	int64_t least = MIN(2 * s->model->config.n_experts_used, s->n);
	o->n_slots = (int32_t)MIN(n, s->n);
	if (n >= least && n >= 2)
		return OK;
	return fail_at(fail, E_CONFIG, "expert_memory",
		       "expert_memory has %lld bytes, room for %lld experts of %zu bytes; the "
		       "model wants at least %lld: set expert_memory to %lldM or more",
		       (long long)budget, (long long)n, o->slot_bytes,
		       (long long)MAX(least, 2),
		       (long long)((MAX(least, 2) * (int64_t)o->slot_bytes >> 20) + 1));
}

enum status cpu_experts_end(struct cpu *c, struct fail *fail)
{
	struct cpu_experts *s = c->experts;
	struct expert_memory_opts o = {.slot_bytes = 0};
	struct expert_store store = {.fd = -1};
	if (s->n == 0)
		return OK;
	enum status st = count_slots(s, &o, fail);
	if (st != OK)
		return st;
	char *path = path_of(s), *use = xasprintf("%s.use", path);
	st = open_store(s, path, &store, fail);
	for (int32_t l = 0; l < s->n_layers; l++)
		for (int32_t e = 0; e < s->layers[l]->experts->n * PARTS; e++)
			cpu_weight_give_back(part(s->layers[l]->experts, e / PARTS, e % PARTS));
	o.use_path = use;
	if (st == OK)
		st = expert_memory_create(&store, &o, &s->memory, fail);
	if (st == OK) {
		snprintf(c->base.experts_note, sizeof c->base.experts_note, "%d of %s; %s",
			 s->n, path, expert_memory_note(s->memory));
		metric_set(METRIC_EXPERT_SLOTS, o.n_slots);
	}
	s->model = NULL;
	free(path);
	free(use);
	return st;
}

void cpu_experts_free(struct cpu *c)
{
	while (c->experts) {
		struct cpu_experts *s = c->experts;
		c->experts = s->next;
		expert_memory_destroy(s->memory);
		free(s->layers);
		free(s->n_bytes);
		free(s);
	}
}
