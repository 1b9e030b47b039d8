/* SPDX-License-Identifier: Apache-2.0 */
#include "api/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/alloc.h"

/* What one API key holds; here only while it holds something. */
struct owner {
	LIST_ENTRY(owner) link;
	uint64_t id;
	int n;
	size_t n_bytes;
};

struct stored_response {
	TAILQ_ENTRY(stored_response) link;
	struct owner *owner;
	size_t n_id, n; /* bytes of id, and of all */
	size_t n_part[RESPONSE_PARTS];
	char bytes[]; /* id, then the parts */
};

struct response_store {
	pthread_mutex_t lock;
	TAILQ_HEAD(entries, stored_response) entries; /* oldest first */
	LIST_HEAD(owners, owner) owners;
	int n, max_entries;
	size_t n_bytes, max_bytes;
};

struct response_store *response_store_create(int max_entries, size_t max_bytes)
{
	struct response_store *s = xcalloc(1, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	TAILQ_INIT(&s->entries);
	LIST_INIT(&s->owners);
	s->max_entries = max_entries;
	s->max_bytes = max_bytes;
	return s;
}

/* --- owners: all under the lock ------------------------------------------------- */

static struct owner *take_owner(struct response_store *s, uint64_t id)
{
	struct owner *o;
	LIST_FOREACH(o, &s->owners, link)
		if (o->id == id)
			return o;
	o = xcalloc(1, sizeof *o);
	o->id = id;
	LIST_INSERT_HEAD(&s->owners, o, link);
	return o;
}

static void count(struct response_store *s, struct owner *o, int n, size_t n_bytes)
{
	s->n += n;
	s->n_bytes += n_bytes;
	o->n += n;
	o->n_bytes += n_bytes;
}

static void drop(struct response_store *s, struct stored_response *e)
{
	struct owner *o = e->owner;
	TAILQ_REMOVE(&s->entries, e, link);
	count(s, o, -1, -e->n);
	free(e);
	if (o->n == 0) {
		LIST_REMOVE(o, link);
		free(o);
	}
}

/* The oldest entry of the owner who holds most of what is short. */
static struct stored_response *find_victim(struct response_store *s, bool is_short_of_bytes)
{
	struct owner *o, *most = LIST_FIRST(&s->owners);
	struct stored_response *e;
	LIST_FOREACH(o, &s->owners, link)
		if (is_short_of_bytes ? o->n_bytes > most->n_bytes : o->n > most->n)
			most = o;
	TAILQ_FOREACH(e, &s->entries, link)
		if (e->owner == most)
			break;
	return e;
}

/* --- entries ---------------------------------------------------------------------- */

void response_store_destroy(struct response_store *s)
{
	if (!s)
		return;
	while (s->n > 0)
		drop(s, TAILQ_FIRST(&s->entries));
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void response_store_put(struct response_store *s, uint64_t owner, struct str id,
			const struct str parts[RESPONSE_PARTS])
{
	size_t n = id.n;
	for (int i = 0; i < RESPONSE_PARTS; i++)
		n += parts[i].n;
	if (n > s->max_bytes || s->max_entries == 0)
		return;
	struct stored_response *e = xcalloc(1, sizeof *e + n);
	char *to = e->bytes;
	e->n_id = id.n;
	e->n = n;
	memcpy(to, id.p, id.n);
	to += id.n;
	for (int i = 0; i < RESPONSE_PARTS; i++) {
		e->n_part[i] = parts[i].n;
		if (parts[i].n)
			memcpy(to, parts[i].p, parts[i].n);
		to += parts[i].n;
	}
	pthread_mutex_lock(&s->lock);
	/* It is counted before room is made, so that its own owner is a candidate. */
	e->owner = take_owner(s, owner);
	TAILQ_INSERT_TAIL(&s->entries, e, link);
	count(s, e->owner, 1, n);
	while (s->n > s->max_entries || s->n_bytes > s->max_bytes)
		drop(s, find_victim(s, s->n_bytes > s->max_bytes));
	pthread_mutex_unlock(&s->lock);
}

/* Under the lock. The newest is the likely one. */
static struct stored_response *find(struct response_store *s, uint64_t owner, struct str id)
{
	struct stored_response *e;
	TAILQ_FOREACH_REVERSE(e, &s->entries, entries, link)
		if (e->owner->id == owner && str_eq((struct str){e->bytes, e->n_id}, id))
			return e;
	return NULL;
}

bool response_store_get(struct response_store *s, uint64_t owner, struct str id,
			enum response_part part, struct buf *out)
{
	pthread_mutex_lock(&s->lock);
	const struct stored_response *e = find(s, owner, id);
	if (e) {
		const char *at = e->bytes + e->n_id;
		for (int i = 0; i < (int)part; i++)
			at += e->n_part[i];
		buf_add(out, at, e->n_part[part]);
	}
	pthread_mutex_unlock(&s->lock);
	return e != NULL;
}

bool response_store_delete(struct response_store *s, uint64_t owner, struct str id)
{
	pthread_mutex_lock(&s->lock);
	struct stored_response *e = find(s, owner, id);
	if (e)
		drop(s, e);
	pthread_mutex_unlock(&s->lock);
	return e != NULL;
}
