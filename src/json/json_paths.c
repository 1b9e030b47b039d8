/* SPDX-License-Identifier: Apache-2.0
 *
 * The list is not indexed: it is searched only when an error is reported.
 */
#include "json/json_paths.h"

#include <stdlib.h>

#include "base/alloc.h"

void json_paths_init(struct json_paths *ps)
{
	*ps = (struct json_paths){0};
	arena_init(&ps->arena);
}

void json_paths_deinit(struct json_paths *ps)
{
	free(ps->p);
	arena_deinit(&ps->arena);
	*ps = (struct json_paths){0};
}

static void add_path(struct json_paths *ps, const json_t *at, const char *key,
		     const struct json_node *from)
{
	struct buf path = {0};
	json_read_path(from, &path);
	if (ps->n == ps->cap) {
		ps->cap = ps->cap ? 2 * ps->cap : 16;
		ps->p = xrealloc(ps->p, ps->cap * sizeof *ps->p);
	}
	ps->p[ps->n++] = (struct json_origin){
		.at = at, .key = key ? arena_strdup(&ps->arena, key) : NULL,
		.path = arena_str(&ps->arena, buf_str(&path))};
	buf_deinit(&path);
}

void json_paths_add(struct json_paths *ps, const json_t *v, const struct json_node *from)
{
	add_path(ps, v, NULL, from);
}

void json_paths_add_field(struct json_paths *ps, const json_t *object, const char *key,
			  const struct json_node *from)
{
	add_path(ps, object, key, from);
}

const struct str *json_paths_find(const struct json_paths *ps, const json_t *object,
				  const char *key)
{
	for (size_t i = 0; i < ps->n; i++) {
		const struct json_origin *o = &ps->p[i];
		if (o->at == object && !o->key == !key &&
		    (!key || strcmp(o->key, key) == 0))
			return &o->path;
	}
	return NULL;
}
