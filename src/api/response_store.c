/* SPDX-License-Identifier: Apache-2.0 */
#include "api/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/alloc.h"

struct entry {
	TAILQ_ENTRY(entry) link;
	size_t n_id, n; /* bytes of id, and of all */
	char bytes[];   /* id, then messages */
};

struct response_store {
	pthread_mutex_t lock;
	TAILQ_HEAD(entries, entry) entries; /* oldest first */
	int n, max_entries;
	size_t n_bytes, max_bytes;
};

struct response_store *response_store_create(int max_entries, size_t max_bytes)
{
	struct response_store *s = xcalloc(1, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	TAILQ_INIT(&s->entries);
	s->max_entries = max_entries;
	s->max_bytes = max_bytes;
	return s;
}

static void drop_oldest(struct response_store *s)
{
	struct entry *e = TAILQ_FIRST(&s->entries);
	TAILQ_REMOVE(&s->entries, e, link);
	s->n--;
	s->n_bytes -= e->n;
	free(e);
}

void response_store_destroy(struct response_store *s)
{
	if (!s)
		return;
	while (s->n > 0)
		drop_oldest(s);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void response_store_put(struct response_store *s, struct str id,
			struct str messages)
{
	size_t n = id.n + messages.n;
	if (n > s->max_bytes || s->max_entries == 0)
		return;
	struct entry *e = xcalloc(1, sizeof *e + n);
	e->n_id = id.n;
	e->n = n;
	memcpy(e->bytes, id.p, id.n);
	memcpy(e->bytes + id.n, messages.p, messages.n);
	pthread_mutex_lock(&s->lock);
	while (s->n == s->max_entries || s->n_bytes + n > s->max_bytes)
		drop_oldest(s);
	TAILQ_INSERT_TAIL(&s->entries, e, link);
	s->n++;
	s->n_bytes += n;
	pthread_mutex_unlock(&s->lock);
}

bool response_store_get(struct response_store *s, struct str id, struct buf *out)
{
	struct entry *e;
	pthread_mutex_lock(&s->lock);
	/* The newest is the likely one. */
	TAILQ_FOREACH_REVERSE(e, &s->entries, entries, link)
		if (str_eq((struct str){e->bytes, e->n_id}, id))
			break;
	if (e)
		buf_add(out, e->bytes + e->n_id, e->n - e->n_id);
	pthread_mutex_unlock(&s->lock);
	return e != NULL;
}
