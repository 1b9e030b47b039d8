/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps the parts of one JSON tree to paths in another. A server that rewrites a request
 * before reading it notes the original path of each part that it moves. json_read_fail
 * looks up this path, so an error names the place in the client's own body.
 *
 * Thread: one writer, then any readers. The caller owns the struct.
 */
#pragma once
#include "base/arena.h"
#include "json/json_read.h"

struct json_paths {
	struct arena arena;
	struct json_origin {
		const json_t *at;
		const char *key; /* field of `at`; NULL: `at` itself */
		struct str path; /* path in the client's body */
	} *p;
	size_t n, cap;
};

void json_paths_init(struct json_paths *ps);
void json_paths_deinit(struct json_paths *ps);

/* Notes that value v of the new tree comes from the client's `from`. v must be an object
 * or a list, because other values may be shared. */
void json_paths_add(struct json_paths *ps, const json_t *v, const struct json_node *from);
/* Notes that the field `key` of the object comes from the client's `from`. The field may
 * be absent. */
void json_paths_add_field(struct json_paths *ps, const json_t *object, const char *key,
			  const struct json_node *from);
/* The client's path of a field of `object` (key NULL: of the object itself). NULL: none
 * was noted. */
const struct str *json_paths_find(const struct json_paths *ps, const json_t *object,
				  const char *key);
