/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/encodings.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/map.h"

#define N_BUCKETS 4096 /* a power of two */

struct encoding_entry {
	TAILQ_ENTRY(encoding_entry) age;
	LIST_ENTRY(encoding_entry) link;
	uint64_t hash;
	char *key;
	size_t n_key, n_ids;
	int32_t ids[];
};

struct encodings {
	pthread_mutex_t lock;
	size_t max_bytes, n_bytes;
	TAILQ_HEAD(encodings_ages, encoding_entry) ages; /* first in the list: used longest ago */
	LIST_HEAD(encodings_bucket, encoding_entry) buckets[N_BUCKETS];
};

struct encodings *encodings_create(size_t max_bytes)
{
	struct encodings *e = xcalloc(1, sizeof *e);
	pthread_mutex_init(&e->lock, NULL);
	e->max_bytes = max_bytes;
	TAILQ_INIT(&e->ages);
	return e;
}

static size_t bytes_of(size_t n_key, size_t n_ids)
{
	return sizeof(struct encoding_entry) + n_key + n_ids * sizeof(int32_t);
}

static void drop(struct encodings *e, struct encoding_entry *x)
{
	e->n_bytes -= bytes_of(x->n_key, x->n_ids);
	TAILQ_REMOVE(&e->ages, x, age);
	LIST_REMOVE(x, link);
	free(x->key);
	free(x);
}

void encodings_destroy(struct encodings *e)
{
	if (!e)
		return;
	while (!TAILQ_EMPTY(&e->ages))
		drop(e, TAILQ_FIRST(&e->ages));
	pthread_mutex_destroy(&e->lock);
	free(e);
}

static void add_number(struct buf *key, size_t n)
{
	buf_add(key, (const char *)&n, sizeof n);
}

void encodings_key(struct str space, struct markview stretch, bool begins, struct buf *key)
{
	buf_clear(key);
	add_number(key, begins);
	add_number(key, space.n);
	buf_add_str(key, space);
	/* The end and the trust of each run of one trust. The last end is the text's length, so
	 * the text's place in the key is unambiguous. */
	for (size_t at = 0; at < stretch.text.n;) {
		enum trust trust;
		size_t end = markview_run_end(stretch, at, &trust);
		add_number(key, end);
		add_number(key, (size_t)trust);
		at = end;
	}
	buf_add_str(key, stretch.text);
}

static struct encoding_entry *find(struct encodings *e, uint64_t hash, struct str key)
{
	struct encoding_entry *x;
	LIST_FOREACH(x, &e->buckets[hash & (N_BUCKETS - 1)], link)
		if (x->hash == hash && str_eq((struct str){x->key, x->n_key}, key))
			return x;
	return NULL;
}

bool encodings_get(struct encodings *e, struct str key, struct ids *out)
{
	uint64_t hash = hash_bytes(0, key.p, key.n);
	pthread_mutex_lock(&e->lock);
	struct encoding_entry *x = find(e, hash, key);
	if (x) {
		ids_add_all(out, x->ids, x->n_ids);
		TAILQ_REMOVE(&e->ages, x, age);
		TAILQ_INSERT_TAIL(&e->ages, x, age);
	}
	pthread_mutex_unlock(&e->lock);
	return x != NULL;
}

void encodings_put(struct encodings *e, struct str key, const int32_t *ids, size_t n)
{
	size_t n_bytes = bytes_of(key.n, n);
	if (n_bytes > e->max_bytes)
		return;
	struct encoding_entry *x = xcalloc(1, sizeof *x + n * sizeof *ids);
	x->hash = hash_bytes(0, key.p, key.n);
	x->key = xstrndup(key.p, key.n);
	x->n_key = key.n;
	x->n_ids = n;
	if (n)
		memcpy(x->ids, ids, n * sizeof *ids);
	pthread_mutex_lock(&e->lock);
	struct encoding_entry *old = find(e, x->hash, key); /* another thread has stored the same
							     * stretch */
	if (old)
		drop(e, old);
	while (e->n_bytes + n_bytes > e->max_bytes)
		drop(e, TAILQ_FIRST(&e->ages));
	e->n_bytes += n_bytes;
	TAILQ_INSERT_TAIL(&e->ages, x, age);
	LIST_INSERT_HEAD(&e->buckets[x->hash & (N_BUCKETS - 1)], x, link);
	pthread_mutex_unlock(&e->lock);
}
