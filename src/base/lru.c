/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lru.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/work.h"

struct lru_owner {
	LIST_ENTRY(lru_owner) link;
	uint64_t id;
	int n;          /* entries; an owner without entries is freed */
	size_t n_bytes; /* of its entries */
};

struct lru_entry {
	TAILQ_ENTRY(lru_entry) link;
	LIST_ENTRY(lru_entry) in_bucket;
	struct lru_owner *owner;
	void *value;
	uint64_t hash; /* of the owner and the key */
	size_t n_bytes, n_key; /* n_bytes: of key and value, as of the last count */
	char key[];
};

struct lru {
	struct lru_opts opts;
	pthread_mutex_t lock;
	TAILQ_HEAD(lru_entries, lru_entry) entries; /* first in the list: evicted first */
	LIST_HEAD(lru_owners, lru_owner) owners;
	LIST_HEAD(lru_bucket, lru_entry) *buckets; /* (n_buckets), by hash */
	size_t n_buckets; /* a power of two, more than there are entries */
	size_t n_bytes;
	int n;
};

struct lru *lru_create(const struct lru_opts *o)
{
	struct lru *l = xcalloc(1, sizeof *l);
	l->opts = *o;
	pthread_mutex_init(&l->lock, NULL);
	TAILQ_INIT(&l->entries);
	LIST_INIT(&l->owners);
	l->n_buckets = 64;
	l->buckets = xcalloc(l->n_buckets, sizeof *l->buckets);
	return l;
}

/* --- internals: the caller holds the lock ---------------------------------------- */

/* Its owner of this id, made where there is none. */
static struct lru_owner *owner_of(struct lru *l, uint64_t id)
{
	struct lru_owner *o;
	LIST_FOREACH(o, &l->owners, link)
		if (o->id == id)
			return o;
	o = xcalloc(1, sizeof *o);
	o->id = id;
	LIST_INSERT_HEAD(&l->owners, o, link);
	return o;
}

static struct lru_bucket *bucket_of(const struct lru *l, uint64_t hash)
{
	return &l->buckets[hash & (l->n_buckets - 1)];
}

/* Buckets for one entry more. */
static void widen(struct lru *l)
{
	struct lru_entry *e;
	if ((size_t)l->n < l->n_buckets)
		return;
	free(l->buckets);
	l->n_buckets *= 4;
	l->buckets = xcalloc(l->n_buckets, sizeof *l->buckets);
	TAILQ_FOREACH(e, &l->entries, link)
		LIST_INSERT_HEAD(bucket_of(l, e->hash), e, in_bucket);
}

static void add_bytes(struct lru *l, struct lru_entry *e)
{
	e->n_bytes = e->n_key + l->opts.size(e->value);
	e->owner->n_bytes += e->n_bytes;
	l->n_bytes += e->n_bytes;
}

static void take_bytes(struct lru *l, struct lru_entry *e)
{
	e->owner->n_bytes -= e->n_bytes;
	l->n_bytes -= e->n_bytes;
}

static void lru_drop(struct lru *l, struct lru_entry *e)
{
	struct lru_owner *o = e->owner;
	take_bytes(l, e);
	TAILQ_REMOVE(&l->entries, e, link);
	LIST_REMOVE(e, in_bucket);
	l->n--;
	if (--o->n == 0) {
		LIST_REMOVE(o, link);
		free(o);
	}
	l->opts.drop(e->value);
	free(e);
}

static uint64_t hash_of(struct lru_key key)
{
	return hash_bytes(key.owner, key.name.p, key.name.n);
}

static struct lru_entry *lru_find(const struct lru *l, struct lru_key key, uint64_t hash)
{
	struct lru_entry *e;
	LIST_FOREACH(e, bucket_of(l, hash), in_bucket)
		if (e->hash == hash && e->owner->id == key.owner &&
		    str_eq((struct str){e->key, e->n_key}, key.name))
			return e;
	return NULL;
}

static void recount(struct lru *l)
{
	struct lru_entry *e;
	TAILQ_FOREACH(e, &l->entries, link) {
		take_bytes(l, e);
		add_bytes(l, e);
	}
}

/* The oldest entry of the owner who holds most of the scarce resource (bytes or entries). */
static struct lru_entry *find_victim(struct lru *l, bool is_short_of_bytes)
{
	struct lru_owner *o, *most = LIST_FIRST(&l->owners);
	struct lru_entry *e;
	LIST_FOREACH(o, &l->owners, link)
		if (is_short_of_bytes ? o->n_bytes > most->n_bytes : o->n > most->n)
			most = o;
	TAILQ_FOREACH(e, &l->entries, link)
		if (e->owner == most)
			break;
	return e;
}

static void make_room(struct lru *l)
{
	if (l->opts.grows)
		recount(l);
	while (l->n_bytes > l->opts.max_bytes || l->n > l->opts.max_entries)
		lru_drop(l, find_victim(l, l->n_bytes > l->opts.max_bytes));
}

/* --- public functions ------------------------------------------------------------ */

void lru_destroy(struct lru *l)
{
	if (!l)
		return;
	while (l->n > 0)
		lru_drop(l, TAILQ_FIRST(&l->entries));
	pthread_mutex_destroy(&l->lock);
	free(l->buckets);
	free(l);
}

void lru_put(struct lru *l, struct lru_key key, void *value)
{
	/* A request that is over may have lost bytes of the key or of the value. */
	if (l->opts.max_entries == 0 || work_is_over() ||
	    key.name.n + l->opts.size(value) > l->opts.max_bytes) {
		l->opts.drop(value);
		return;
	}
	struct lru_entry *e = calloc(1, sizeof *e + key.name.n);
	if (!e) {
		l->opts.drop(value);
		return;
	}
	e->value = value;
	e->hash = hash_of(key);
	e->n_key = key.name.n;
	if (key.name.n)
		memcpy(e->key, key.name.p, key.name.n);
	pthread_mutex_lock(&l->lock);
	struct lru_entry *old = lru_find(l, key, e->hash);
	if (old)
		lru_drop(l, old);
	widen(l);
	/* Count the new entry before evicting, so that its owner is a candidate too. */
	e->owner = owner_of(l, key.owner);
	e->owner->n++;
	TAILQ_INSERT_TAIL(&l->entries, e, link);
	LIST_INSERT_HEAD(bucket_of(l, e->hash), e, in_bucket);
	add_bytes(l, e);
	l->n++;
	make_room(l);
	pthread_mutex_unlock(&l->lock);
}

bool lru_get(struct lru *l, struct lru_key key, void (*use)(void *value, void *ctx),
	     void *ctx)
{
	uint64_t hash = hash_of(key);
	pthread_mutex_lock(&l->lock);
	struct lru_entry *e = lru_find(l, key, hash);
	if (e) {
		use(e->value, ctx);
		if (!l->opts.keeps_order) {
			TAILQ_REMOVE(&l->entries, e, link);
			TAILQ_INSERT_TAIL(&l->entries, e, link);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return e != NULL;
}

bool lru_delete(struct lru *l, struct lru_key key)
{
	uint64_t hash = hash_of(key);
	pthread_mutex_lock(&l->lock);
	struct lru_entry *e = lru_find(l, key, hash);
	if (e)
		lru_drop(l, e);
	pthread_mutex_unlock(&l->lock);
	return e != NULL;
}
