/* SPDX-License-Identifier: Apache-2.0 */
#include "api/grammarcache.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/metrics.h"

struct cached_grammar {
	TAILQ_ENTRY(cached_grammar) link;
	struct grammar *g;
	uint64_t hash;
	size_t n_key;
	char key[];
};

struct grammarcache {
	pthread_mutex_t lock;
	TAILQ_HEAD(entries, cached_grammar) entries; /* least recently used first */
	int n, max_entries;
	size_t max_bytes;
};

struct grammarcache *grammarcache_create(int max_entries, size_t max_bytes)
{
	struct grammarcache *c = xcalloc(1, sizeof *c);
	pthread_mutex_init(&c->lock, NULL);
	TAILQ_INIT(&c->entries);
	c->max_entries = max_entries;
	c->max_bytes = max_bytes;
	return c;
}

static void drop(struct grammarcache *c, struct cached_grammar *e)
{
	TAILQ_REMOVE(&c->entries, e, link);
	c->n--;
	grammar_unref(e->g);
	free(e);
}

void grammarcache_destroy(struct grammarcache *c)
{
	if (!c)
		return;
	while (c->n > 0)
		drop(c, TAILQ_FIRST(&c->entries));
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Under the lock. */
static struct cached_grammar *find(struct grammarcache *c, struct str key, uint64_t hash)
{
	struct cached_grammar *e;
	TAILQ_FOREACH_REVERSE(e, &c->entries, entries, link)
		if (e->hash == hash && str_eq((struct str){e->key, e->n_key}, key))
			return e;
	return NULL;
}

/* Their masks grow while they are in use, so all are added up anew. */
static size_t n_bytes(const struct grammarcache *c)
{
	const struct cached_grammar *e;
	size_t n = 0;
	TAILQ_FOREACH(e, &c->entries, link)
		n += sizeof *e + e->n_key + grammar_size(e->g);
	return n;
}

struct grammar *grammarcache_get(struct grammarcache *c, struct str key)
{
	struct grammar *g = NULL;
	pthread_mutex_lock(&c->lock);
	struct cached_grammar *e = find(c, key, hash_bytes(0, key.p, key.n));
	if (e) {
		TAILQ_REMOVE(&c->entries, e, link);
		TAILQ_INSERT_TAIL(&c->entries, e, link);
		g = grammar_ref(e->g);
	}
	pthread_mutex_unlock(&c->lock);
	return g;
}

void grammarcache_put(struct grammarcache *c, struct str key, struct grammar *g)
{
	struct cached_grammar *e = xcalloc(1, sizeof *e + key.n);
	e->g = grammar_ref(g);
	e->hash = hash_bytes(0, key.p, key.n);
	e->n_key = key.n;
	if (key.n)
		memcpy(e->key, key.p, key.n);
	metric_add(METRIC_GRAMMARS_COMPILED, 1);
	pthread_mutex_lock(&c->lock);
	struct cached_grammar *old = find(c, key, e->hash); /* made at the same time */
	if (old)
		drop(c, old);
	TAILQ_INSERT_TAIL(&c->entries, e, link);
	c->n++;
	while (c->n > c->max_entries || (c->n > 0 && n_bytes(c) > c->max_bytes))
		drop(c, TAILQ_FIRST(&c->entries));
	pthread_mutex_unlock(&c->lock);
}
