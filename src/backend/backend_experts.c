/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#include "backend/backend_experts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "experts/expert_depth.h"

void backend_experts_add(struct backend_experts *s, const uint64_t *n_bytes, int32_t n)
{
	size_t n_layers = (size_t)s->n_layers + 1, n_all = (size_t)s->n + (size_t)n;
	s->first = xrealloc(s->first, n_layers * sizeof *s->first);
	s->first[s->n_layers++] = s->n;
	s->n_bytes = xrealloc(s->n_bytes, n_all * sizeof *s->n_bytes);
	memcpy(s->n_bytes + s->n, n_bytes, (size_t)n * sizeof *n_bytes);
	s->n += n;
}

/* Packs expert i into out, as struct expert_store_plan asks. A store is also compared with
 * this when it is opened. */
static enum status backend_experts_fill(void *ctx, int32_t i, uint8_t *out, struct fail *fail)
{
	struct backend_experts *s = ctx;
	int32_t l = 0;
	while (l + 1 < s->n_layers && s->first[l + 1] <= i)
		l++;
	enum status st = s->pack(s->ctx, l, i - s->first[l], out, fail);
	if (st == OK && s->b->on_stored)
		s->b->on_stored(s->b->on_stored_ctx, s->n_bytes[i]);
	return st;
}

/* Folder and name of the store: FOLDER/MODEL-HASH-KIND.halod-experts, as the cache of
 * packed weights is called. */
static char *path_of(const struct backend_experts *s)
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
			       model + name, (unsigned)(hash_bytes(0, model, n) >> 32),
			       s->kind);
	char *out = file_join(s->dir && *s->dir ? s->dir : beside, file);
	free(real);
	free(beside);
	free(file);
	return out;
}

/* What the contents depend on: version, kind, the model's files, the sizes. */
static void add_key(const struct backend_experts *s, struct buf *out)
{
	uint64_t sizes = hash_bytes(0, s->n_bytes, (size_t)s->n * sizeof *s->n_bytes);
	buf_addf(out, "halod %s\nkind %s\nsizes %016llx\n", PACKAGE_VERSION, s->kind,
		 (unsigned long long)sizes);
	tensors_list_files(s->model->tensors, out);
}

/* True if the first experts of each layer are what would be stored now. The code that packs may
 * have changed since. */
static bool is_current(struct backend_experts *s, const struct expert_store *store)
{
	bool is_same = true;
	for (int32_t l = 0; l < s->n_layers && is_same; l++) {
		int32_t i = s->first[l];
		size_t n = s->n_bytes[i];
		uint8_t *made = xcalloc(1, n);
		is_same = store->entries[i].n_bytes == n && backend_experts_fill(s, i, made,
										 NULL) == OK &&
			  expert_reader_sum(made, n) == store->entries[i].sum;
		free(made);
	}
	return is_same;
}

static enum status make_store(struct backend_experts *s, const char *path, struct str key,
			      const char *why, struct fail *fail)
{
	double bytes = 0;
	for (int32_t i = 0; i < s->n; i++)
		bytes += (double)s->n_bytes[i];
	log_info("making the expert store %s, %.2f GB%s%s", path, bytes * 1e-9,
		 why ? ": " : "", why ? why : "");
	return expert_store_make(&(struct expert_store_plan){
		.path = path, .key = key, .n = s->n, .n_bytes = s->n_bytes,
		.fill = backend_experts_fill, .ctx = s}, fail);
}

static enum status open_store(struct backend_experts *s, const char *path,
			      struct expert_store *out, struct fail *fail)
{
	struct buf key = {0};
	struct fail why = {0};
	add_key(s, &key);
	if (s->dir && *s->dir && mkdir(s->dir, 0777) != 0 && errno != EEXIST)
		log_warn("%s: %s", s->dir, strerror(errno));
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

/* At least the slots of two tokens' experts: while one wave of experts computes, the next
 * one is read. */
enum status backend_experts_count(const struct backend_experts *s, size_t spare,
				  struct expert_memory_opts *o, struct fail *fail)
{
	int64_t budget = s->b->expert_bytes;
	for (int32_t i = 0; i < s->n; i++)
		o->slot_bytes = MAX(o->slot_bytes, s->n_bytes[i]);
	int64_t slot = (int64_t)o->slot_bytes;
	int64_t n = MAX(budget - (int64_t)spare, 0) / slot;
	int64_t least = MAX(MIN(2 * s->model->config.n_experts_used, s->n), 2);
	o->n_slots = (int32_t)MIN(n, s->n);
	if (n >= least)
		return OK;
	return fail_at(fail, E_CONFIG, "expert_memory",
		       "expert_memory has %lld bytes, room for %lld experts of %lld bytes; the "
		       "model wants at least %lld: set expert_memory to %lldM or more",
		       (long long)budget, (long long)n, (long long)slot, (long long)least,
		       (long long)(((least * slot + (int64_t)spare) >> 20) + 1));
}

enum status backend_experts_open(struct backend_experts *s, struct expert_memory_opts *o,
				 struct fail *fail)
{
	struct expert_store store = {.fd = -1};
	char *path = path_of(s), *use = xasprintf("%s.use", path);
	char *depth = xasprintf("%s" EXPERT_DEPTH_SUFFIX, path);
	enum status st = open_store(s, path, &store, fail);
	o->use_path = use;
	o->depth_path = depth;
	if (st == OK)
		st = expert_memory_create(&store, o, &s->memory, fail);
	if (st == OK) {
		snprintf(s->b->experts_note, sizeof s->b->experts_note, "%d of %s; %s", s->n,
			 path, expert_memory_note(s->memory));
		metric_share(METRIC_EXPERT_SLOTS, &s->told_slots, o->n_slots);
	}
	o->use_path = o->depth_path = NULL;
	s->model = NULL;
	free(path);
	free(use);
	free(depth);
	return st;
}

void backend_experts_use(struct backend_experts *s, int32_t l, uint64_t step, int32_t *e,
			 int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		e[i] += s->first[l];
	expert_memory_use(s->memory, e, n, step != s->step_before);
	s->step_before = step;
}

void backend_experts_deinit(struct backend_experts *s)
{
	metric_share(METRIC_EXPERT_SLOTS, &s->told_slots, 0);
	expert_memory_destroy(s->memory);
	free(s->first);
	free(s->n_bytes);
}
