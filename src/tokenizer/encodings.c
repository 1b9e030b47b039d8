/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/encodings.h"

#include <limits.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/lru.h"

struct encodings {
	struct lru *lru;
};

struct kept_ids {
	size_t n;
	int32_t ids[];
};

static size_t size_of(size_t n) { return sizeof(struct kept_ids) + n * sizeof(int32_t); }

static size_t size(void *value)
{
	/* And about what an entry costs beside it. */
	return size_of(((const struct kept_ids *)value)->n) + 100;
}

struct encodings *encodings_create(size_t max_bytes)
{
	struct encodings *e = xcalloc(1, sizeof *e);
	e->lru = lru_create(&(struct lru_opts){.max_entries = INT_MAX, .max_bytes = max_bytes,
					       .size = size, .drop = free});
	return e;
}

void encodings_destroy(struct encodings *e)
{
	if (!e)
		return;
	lru_destroy(e->lru);
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

static void add_ids(void *value, void *ctx)
{
	const struct kept_ids *x = value;
	ids_add_all(ctx, x->ids, x->n);
}

bool encodings_get(struct encodings *e, struct str key, struct ids *out)
{
	return lru_get(e->lru, (struct lru_key){.name = key}, add_ids, out);
}

void encodings_put(struct encodings *e, struct str key, const int32_t *ids, size_t n)
{
	struct kept_ids *x = malloc(size_of(n));
	if (!x)
		return;
	x->n = n;
	if (n)
		memcpy(x->ids, ids, n * sizeof *ids);
	lru_put(e->lru, (struct lru_key){.name = key}, x);
}
