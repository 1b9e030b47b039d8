/* SPDX-License-Identifier: Apache-2.0 */
#include "api/response_store.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/lru.h"

struct stored_response {
	size_t n_part[RESPONSE_PARTS];
	char bytes[]; /* the parts, one behind the other */
};

struct response_store {
	struct lru *lru;
};

static size_t size(void *value)
{
	const struct stored_response *r = value;
	size_t n = 0;
	for (int i = 0; i < RESPONSE_PARTS; i++)
		n += r->n_part[i];
	return n;
}

struct response_store *response_store_create(int max_entries, size_t max_bytes)
{
	struct response_store *s = xcalloc(1, sizeof *s);
	s->lru = lru_create(&(struct lru_opts){
		.max_entries = max_entries, .max_bytes = max_bytes, .keeps_order = true,
		.size = size, .drop = free});
	return s;
}

void response_store_destroy(struct response_store *s)
{
	if (!s)
		return;
	lru_destroy(s->lru);
	free(s);
}

void response_store_put(struct response_store *s, uint64_t owner, struct str id,
			const struct str parts[RESPONSE_PARTS])
{
	size_t n = 0;
	for (int i = 0; i < RESPONSE_PARTS; i++)
		n += parts[i].n;
	struct stored_response *r = xcalloc(1, sizeof *r + n);
	char *to = r->bytes;
	for (int i = 0; i < RESPONSE_PARTS; i++) {
		r->n_part[i] = parts[i].n;
		if (parts[i].n)
			memcpy(to, parts[i].p, parts[i].n);
		to += parts[i].n;
	}
	lru_put(s->lru, (struct lru_key){owner, id}, r);
}

struct wanted_part {
	enum response_part part;
	struct buf *out;
};

static void copy_part(void *value, void *ctx)
{
	const struct stored_response *r = value;
	const struct wanted_part *w = ctx;
	const char *at = r->bytes;
	for (int i = 0; i < (int)w->part; i++)
		at += r->n_part[i];
	buf_add(w->out, at, r->n_part[w->part]);
}

bool response_store_get(struct response_store *s, uint64_t owner, struct str id,
			enum response_part part, struct buf *out)
{
	struct wanted_part w = {part, out};
	return lru_get(s->lru, (struct lru_key){owner, id}, copy_part, &w);
}

bool response_store_delete(struct response_store *s, uint64_t owner, struct str id)
{
	return lru_delete(s->lru, (struct lru_key){owner, id});
}
