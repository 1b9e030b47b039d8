/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tower_view.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_KEPT = 256 };

struct tower_view *tower_view_new(size_t n)
{
	size_t n_bytes = sizeof(struct tower_view) + n * sizeof(float);
	struct tower_view *w = malloc(n_bytes);
	if (!w)
		return NULL;
	*w = (struct tower_view){.n_bytes = n_bytes};
	atomic_init(&w->refs, 1);
	return w;
}

void tower_view_ref(struct tower_view *w)
{
	atomic_fetch_add(&w->refs, 1);
}

void tower_view_unref(struct tower_view *w)
{
	if (w && atomic_fetch_sub(&w->refs, 1) == 1)
		free(w);
}

static void drop_view(void *value)
{
	tower_view_unref(value);
}

static size_t size_of(void *value)
{
	return ((const struct tower_view *)value)->n_bytes;
}

static void take_view(void *value, void *ctx)
{
	struct tower_view *w = value;
	tower_view_ref(w);
	*(struct tower_view **)ctx = w;
}

struct lru *tower_view_lru(size_t max_bytes)
{
	return lru_create(&(struct lru_opts){.max_entries = MAX_KEPT, .max_bytes = max_bytes,
					     .size = size_of, .drop = drop_view});
}

bool tower_view_get(struct lru *l, struct lru_key key, struct tower_view **out)
{
	return lru_get(l, key, take_view, out);
}

void tower_view_put(struct lru *l, struct lru_key key, struct tower_view *w)
{
	tower_view_ref(w);
	lru_put(l, key, w);
}
