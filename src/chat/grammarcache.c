/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/grammarcache.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/lru.h"
#include "base/metrics.h"

struct grammarcache {
	struct lru *lru;
};

static size_t size(void *value) { return grammar_size(value); }

static void grammarcache_drop(void *value) { grammar_unref(value); }

struct grammarcache *grammarcache_create(int max_entries, size_t max_bytes)
{
	struct grammarcache *c = xcalloc(1, sizeof *c);
	c->lru = lru_create(&(struct lru_opts){
		.max_entries = max_entries, .max_bytes = max_bytes, .grows = true,
		.size = size, .drop = grammarcache_drop});
	return c;
}

void grammarcache_destroy(struct grammarcache *c)
{
	if (!c)
		return;
	lru_destroy(c->lru);
	free(c);
}

static void grammarcache_take(void *value, void *ctx)
{
	*(struct grammar **)ctx = grammar_ref(value);
}

struct grammar *grammarcache_get(struct grammarcache *c, struct str key)
{
	struct grammar *g = NULL;
	lru_get(c->lru, (struct lru_key){0, key}, grammarcache_take, &g);
	return g;
}

void grammarcache_put(struct grammarcache *c, struct str key, struct grammar *g)
{
	metric_add(METRIC_GRAMMARS_COMPILED, 1);
	lru_put(c->lru, (struct lru_key){0, key}, grammar_ref(g));
}
