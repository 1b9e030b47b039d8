/* SPDX-License-Identifier: Apache-2.0
 *
 * The Jinja that Hugging Face chat templates are written in. Parsed once,
 * rendered per request. Thread: a struct jinja is immutable and may be rendered
 * by any thread; a struct arena and the values in it belong to one.
 *
 * Values are immutable for their makers here; templates may change namespaces,
 * lists and dicts they hold. Values nested deeper than 300 levels can be rendered
 * from, but not printed or compared whole (E_LIMIT).
 */
#pragma once
#include "base/arena.h"
#include "base/marked.h"

struct jinja;
struct jinja_value;

/* trim_blocks and lstrip_blocks on, keep_trailing_newline off: Hugging Face's
 * settings. E_FORMAT with line and column; E_LIMIT above 1 MiB. `source` is not
 * needed afterwards. */
enum status jinja_compile(struct str source, struct jinja **out,
			  struct fail *fail) MUST_USE;
void jinja_destroy(struct jinja *j);

/* Values, in arena a. Strings and dict keys are copied. */
struct jinja_value *jinja_none(struct arena *a);
struct jinja_value *jinja_bool(struct arena *a, bool v);
struct jinja_value *jinja_int(struct arena *a, int64_t v);
struct jinja_value *jinja_float(struct arena *a, double v);
struct jinja_value *jinja_string(struct arena *a, struct str s, enum trust t);
struct jinja_value *jinja_list(struct arena *a);
void jinja_list_add(struct arena *a, struct jinja_value *list,
		    struct jinja_value *item);
struct jinja_value *jinja_dict(struct arena *a); /* keeps insertion order */
void jinja_dict_set(struct arena *a, struct jinja_value *dict, struct str key,
		    enum trust key_trust, struct jinja_value *value);

struct jinja_limits {
	size_t max_output_bytes; /* 0: 64 MiB */
	size_t max_memory_bytes; /* 0: 256 MiB, all values made while rendering */
	int64_t max_steps;       /* 0: 50 million evaluated nodes */
	int max_depth;           /* 0: 200 nested calls and expressions */
};

struct jinja_env {
	struct arena *arena;           /* holds `globals` and what rendering makes */
	struct jinja_value *globals;   /* dict: messages, tools, … */
	int64_t now_s;                 /* for strftime_now */
	struct jinja_limits limits;
};

/* Append the rendering to *out, marked with who wrote each byte. E_TEMPLATE with
 * the message of raise_exception, or with what went wrong and the line;
 * E_LIMIT where a bound was hit. */
enum status jinja_render(const struct jinja *j, const struct jinja_env *env,
			 struct marked *out, struct fail *fail) MUST_USE;
