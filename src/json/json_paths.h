/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the parts of one JSON tree came from in another. A server that rewrites a
 * request before it reads it notes here, for each part that it moves, the path in the
 * client's own body. json_read_fail looks here, so a fault names the client's place.
 * Thread: one writer, then any readers. The caller owns the struct.
 */
#pragma once
#include "base/arena.h"
#include "json/json_read.h"

struct json_paths {
	struct arena arena;
	struct json_origin {
		const json_t *at;
		const char *key; /* a field of at; NULL: at itself */
		struct str path; /* in the client's body */
	} *p;
	size_t n, cap;
};

void json_paths_init(struct json_paths *ps);
void json_paths_deinit(struct json_paths *ps);

/* The value v of the new tree is what the client calls `from`. v is an object or a list:
 * other values may be shared. */
void json_paths_add(struct json_paths *ps, const json_t *v, const struct json_node *from);
/* The field `key` of the object is what the client calls `from`, also while it is absent. */
void json_paths_add_field(struct json_paths *ps, const json_t *object, const char *key,
			  const struct json_node *from);
/* The path of a field of `object` (NULL: of the value itself); NULL: none was noted. */
const struct str *json_paths_find(const struct json_paths *ps, const json_t *object,
				  const char *key);
