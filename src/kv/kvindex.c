/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/kvindex.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "kv/evict.h"

void kvindex_init(struct kvindex *x)
{
	*x = (struct kvindex){.n_buckets = 1 << 16};
	x->buckets = xcalloc(x->n_buckets, sizeof *x->buckets);
}

static void file_free(struct kvindex_file *f)
{
	free(f->links);
	free(f);
}

void kvindex_deinit(struct kvindex *x)
{
	for (int i = 0; i < x->n_files; i++)
		file_free(x->files[i]);
	free(x->files);
	free(x->buckets);
}

uint64_t kvindex_root(struct str key)
{
	return hash_bytes(1, key.p, key.n);
}

uint64_t kvindex_page(uint64_t before, const int32_t *tokens, int page_size)
{
	return hash_bytes(before, tokens, sizeof *tokens * (size_t)page_size);
}

uint64_t kvindex_state(uint64_t page)
{
	return hash_bytes(page, "state", 5);
}

void kvindex_add(struct kvindex *x, struct kvindex_file *f)
{
	if (x->n_files == x->cap_files) {
		x->cap_files = 2 * x->cap_files + 64;
		x->files = xrealloc(x->files, (size_t)x->cap_files * sizeof *x->files);
	}
	x->files[x->n_files++] = f;
	for (uint32_t i = 0; i < f->n_links; i++) {
		struct kvindex_link *l = &f->links[i];
		l->file = f;
		l->next = x->buckets[l->hash % x->n_buckets];
		x->buckets[l->hash % x->n_buckets] = l;
	}
}

void kvindex_remove(struct kvindex *x, struct kvindex_file *f)
{
	for (uint32_t i = 0; i < f->n_links; i++) {
		struct kvindex_link **at = &x->buckets[f->links[i].hash % x->n_buckets];
		while (*at != &f->links[i])
			at = &(*at)->next;
		*at = f->links[i].next;
	}
	for (int i = 0; i < x->n_files; i++)
		if (x->files[i] == f) {
			x->n_files--; /* the others keep their order, oldest first */
			memmove(&x->files[i], &x->files[i + 1],
				sizeof *x->files * (size_t)(x->n_files - i));
			break;
		}
	file_free(f);
}

const struct kvindex_link *kvindex_find(const struct kvindex *x, uint64_t hash, bool written)
{
	const struct kvindex_link *l = x->buckets[hash % x->n_buckets];
	while (l && (l->hash != hash || (written && l->file->is_pending)))
		l = l->next;
	return l;
}

struct kvindex_file *kvindex_named(const struct kvindex *x, const char *name)
{
	for (int i = 0; i < x->n_files; i++)
		if (strcmp(x->files[i]->name, name) == 0)
			return x->files[i];
	return NULL;
}

struct kvindex_file *kvindex_least(const struct kvindex *x, int64_t now_s)
{
	struct evict_item *items = xcalloc((size_t)x->n_files + 1, sizeof *items);
	struct kvindex_file **of = xcalloc((size_t)x->n_files + 1, sizeof(void *));
	int n = 0;
	struct kvindex_file *least = NULL;
	for (int i = 0; i < x->n_files; i++) {
		struct kvindex_file *f = x->files[i];
		f->is_seen = false;
		if (f->is_pending)
			continue;
		of[n] = f;
		items[n++] = (struct evict_item){.bytes = f->bytes, .first_tok = f->first_tok,
						 .n_tok = f->n_tok, .state_tok = f->state_tok,
						 .used_s = f->used_s};
	}
	/* Marks files that another file continues. */
	for (int i = 0; i < x->n_files; i++) {
		const struct kvindex_file *f = x->files[i];
		const struct kvindex_link *l = f->before ? kvindex_find(x, f->before, false) : NULL;
		if (l && l->file != f)
			l->file->is_seen = true;
	}
	for (int i = 0; i < n; i++)
		items[i].is_needed = of[i]->is_seen;
	int best = evict_choose(items, n, now_s);
	if (best >= 0)
		least = of[best];
	free(items);
	free(of);
	return least;
}
