/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a request's JSON: typed values, and for every fault the path to it
 * ("messages[2].role"). Thread: any.
 *
 * A node is a value and the way that led to it, a chain of stack frames: the
 * path is only spelled out when something is wrong. null reads as absent, as
 * clients send it. Fields nobody asks for are ignored. Strings are views into the
 * tree, valid UTF-8, and may hold NUL.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* Nesting that is accepted, and with it the recursion of whoever walks the tree. */
#define JSON_READ_MAX_DEPTH 96

struct json_paths; /* json_paths.h */

struct json_node {
	const json_t *v; /* NULL: absent or null */
	const struct json_node *up; /* must outlive this node; NULL: the body */
	const char *key; /* in an object; NULL in an array */
	size_t index;    /* in an array */
	/* Of the body: what the client calls the parts of it; NULL: the same. */
	const struct json_paths *paths;
};

/* The whole body, an object. E_JSON with line and column: syntax, invalid UTF-8, half
 * surrogate pairs, duplicate keys, numbers beyond range. *out is freed with
 * json_decref. */
enum status json_read_parse(struct str body, json_t **out,
			    struct fail *fail) MUST_USE;

struct json_node json_read_root(const json_t *v);
/* Field `key` of an object; absent where `obj` is. */
struct json_node json_read_get(const struct json_node *obj, const char *key);
struct json_node json_read_item(const struct json_node *list, size_t i);

/* Appends the client's path to the node, "messages[2].role"; nothing for the body. */
void json_read_path(const struct json_node *at, struct buf *out);
/* A fault that has been described already is at this node: sets fail->param. */
void json_read_locate(const struct json_node *at, struct fail *fail);

/* E_INVAL at the node's path: "`path` " and then what fmt says. */
enum status json_read_fail(const struct json_node *at, struct fail *fail,
			   const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Each leaves *io as it is where the node is absent. Bounds are inclusive. An int
 * may be spelled 100.0. */
enum status json_read_bool(const struct json_node *at, bool *io,
			   struct fail *fail) MUST_USE;
enum status json_read_int(const struct json_node *at, int64_t min, int64_t max,
			  int64_t *io, struct fail *fail) MUST_USE;
enum status json_read_num(const struct json_node *at, double min, double max,
			  double *io, struct fail *fail) MUST_USE;
enum status json_read_str(const struct json_node *at, struct str *io,
			  struct fail *fail) MUST_USE;
/* A list of at most max items; *out_n is 0 where it is absent. */
enum status json_read_list(const struct json_node *at, size_t max,
			   size_t *out_n, struct fail *fail) MUST_USE;
enum status json_read_object(const struct json_node *at,
			     struct fail *fail) MUST_USE;
/* The same, of something that must be there. */
enum status json_read_need(const struct json_node *at,
			   struct fail *fail) MUST_USE;
enum status json_read_need_str(const struct json_node *at, struct str *out,
			       struct fail *fail) MUST_USE;
enum status json_read_need_object(const struct json_node *at,
				  struct fail *fail) MUST_USE;

/* A view of a string value. */
struct str json_read_view(const json_t *string);
/* The first max bytes of s, without the half of a character. To be quoted. */
struct str json_read_clip(struct str s, size_t max);
