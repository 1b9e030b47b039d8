/* SPDX-License-Identifier: Apache-2.0
 *
 * The Jinja dialect of Hugging Face chat templates. A template is parsed once and
 * rendered per request.
 *
 * Thread: a struct jinja is immutable, and any thread may render it. A struct arena and
 * the values in it belong to one thread.
 *
 * Callers of this header cannot change a value once made. Templates may change the
 * namespaces, lists and dicts that they hold. Values nested deeper than 300 levels can be
 * rendered from, but printing or comparing such a value fails with E_LIMIT.
 */
#pragma once
#include "base/arena.h"
#include "base/marked.h"

struct jinja;
struct jinja_value;

/* Parses `source` with Hugging Face's settings: trim_blocks and lstrip_blocks on,
 * keep_trailing_newline off. Errors: E_FORMAT with line and column; E_LIMIT above 1 MiB.
 * `source` is not needed after the call. */
enum status jinja_compile(struct str source, struct jinja **out,
			  struct fail *fail) MUST_USE;
void jinja_destroy(struct jinja *j);

/* Makers of values in arena a. Strings and dict keys are copied. */
struct jinja_value *jinja_none(struct arena *a);
struct jinja_value *jinja_bool(struct arena *a, bool v);
struct jinja_value *jinja_int(struct arena *a, int64_t v);
struct jinja_value *jinja_float(struct arena *a, double v);
/* A number that templates write as these digits, such as 1.10 or an integer beyond 64 bits. */
struct jinja_value *jinja_digits(struct arena *a, double v, struct str digits);
struct jinja_value *jinja_string(struct arena *a, struct str s, enum trust t);
/* A string of several writers. */
struct jinja_value *jinja_marked(struct arena *a, const struct marked *m);
struct jinja_value *jinja_list(struct arena *a);
void jinja_list_add(struct arena *a, struct jinja_value *list,
		    struct jinja_value *item);
struct jinja_value *jinja_dict(struct arena *a); /* keeps insertion order */
void jinja_dict_set(struct arena *a, struct jinja_value *dict, struct str key,
		    enum trust key_trust, struct jinja_value *value);

struct jinja_limits {
	size_t max_output_bytes; /* 0: use the default, 64 MiB */
	size_t max_memory_bytes; /* limit for all values made while rendering; 0: 256 MiB */
	int64_t max_steps;       /* limit of evaluated nodes; 0: 50 million */
	int max_depth;           /* limit of nested calls and expressions; 0: 200 */
};

struct jinja_env {
	struct arena *arena;           /* holds `globals` and all values that the rendering makes */
	struct jinja_value *globals;   /* dict of the template's variables: messages, tools, … */
	int64_t now_s;                 /* current Unix time in seconds, for strftime_now */
	struct jinja_limits limits;
};

/* Appends the rendered text to *out; marks say who wrote each byte. Errors: E_TEMPLATE
 * with the message of raise_exception, or with the fault and its line; E_LIMIT if the
 * rendering hit one of the limits. */
enum status jinja_render(const struct jinja *j, const struct jinja_env *env,
			 struct marked *out, struct fail *fail) MUST_USE;
