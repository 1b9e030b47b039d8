/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads typed values from a request's JSON. Every error names the path of the faulty
 * value, such as "messages[2].role". Thread: any.
 *
 * A node is a value and the path that led to it, as a chain of stack frames. The path is
 * spelled out only for an error. null counts as absent, because clients send it so.
 * Unknown fields are ignored. Strings are views into the tree; they are valid UTF-8 and
 * may contain NUL.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* Maximal nesting. It also limits the recursion of code that walks the tree. */
#define JSON_READ_MAX_DEPTH 96

struct json_paths; /* see json_paths.h */

struct json_node {
	const json_t *v; /* the value; NULL: absent or null */
	const struct json_node *up; /* enclosing node, which must outlive this one; NULL: this is
				     * the body */
	const char *key; /* key in the enclosing object; NULL: the parent is an array */
	size_t index;    /* index in the enclosing array */
	/* For the body's node: maps its parts to the client's paths; NULL: paths are the
	 * same. */
	const struct json_paths *paths;
};

/* Parses the whole body, which must be an object. E_JSON with line and column: syntax
 * error, invalid UTF-8, half a surrogate pair, duplicate key, or a number out of range.
 * The caller frees *out with json_decref. */
enum status json_read_parse(struct str body, json_t **out,
			    struct fail *fail) MUST_USE;

struct json_node json_read_root(const json_t *v);
/* The field `key` of an object; absent if `obj` is absent. */
struct json_node json_read_get(const struct json_node *obj, const char *key);
struct json_node json_read_item(const struct json_node *list, size_t i);

/* Appends the client's path to the node, such as "messages[2].role". Appends nothing for
 * the body. */
void json_read_path(const struct json_node *at, struct buf *out);
/* Adds the node's path to an error that is already described: sets fail->param. */
void json_read_locate(const struct json_node *at, struct fail *fail);

/* Fails with E_INVAL; the text is "`path` " followed by fmt's output. */
enum status json_read_fail(const struct json_node *at, struct fail *fail,
			   const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Each function leaves *io unchanged if the node is absent. Bounds are inclusive. An int
 * may be written 100.0. */
enum status json_read_bool(const struct json_node *at, bool *io,
			   struct fail *fail) MUST_USE;
enum status json_read_int(const struct json_node *at, int64_t min, int64_t max,
			  int64_t *io, struct fail *fail) MUST_USE;
enum status json_read_num(const struct json_node *at, double min, double max,
			  double *io, struct fail *fail) MUST_USE;
enum status json_read_str(const struct json_node *at, struct str *io,
			  struct fail *fail) MUST_USE;
/* Reads a list of at most max items; *out_n is 0 if the list is absent. */
enum status json_read_list(const struct json_node *at, size_t max,
			   size_t *out_n, struct fail *fail) MUST_USE;
enum status json_read_object(const struct json_node *at,
			     struct fail *fail) MUST_USE;
/* Like json_read_list, but the list must be present. */
enum status json_read_need(const struct json_node *at,
			   struct fail *fail) MUST_USE;
enum status json_read_need_str(const struct json_node *at, struct str *out,
			       struct fail *fail) MUST_USE;
/* The string under `key`, which must be present. */
enum status json_read_need_text(const struct json_node *at, const char *key, struct str *out,
				struct fail *fail) MUST_USE;
enum status json_read_need_object(const struct json_node *at,
				  struct fail *fail) MUST_USE;

/* The text of a string value, as a view. */
struct str json_read_view(const json_t *string);
/* The first max bytes of s for quoting, without a partial character at the end. */
struct str json_read_clip(struct str s, size_t max);
