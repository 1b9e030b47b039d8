/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses a request in the strict mode of json_text.h. NUL in a string is accepted, because
 * users do paste binary files. Depth is limited here once, so that later code may
 * recurse over the tree.
 */
#include "json/json_read.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "json/json_fast.h"
#include "json/json_paths.h"
#include "json/json_text.h"
#include "json/jsonfile.h"

#define MAX_SHOWN_PATH 200 /* maximal bytes of a path in an error text; the rest is for words */

/* --- the text ----------------------------------------------------------- */

/* Replaces some of jansson's messages by plainer ones. For example, JavaScript makes half
 * a surrogate pair of an emoji that was cut in two. jansson quotes the faulty bytes,
 * which may not be UTF-8. */
static enum status fail_syntax(const json_error_t *e, struct fail *fail)
{
	struct buf why = {0};
	switch (json_error_code(e)) {
	case json_error_out_of_memory:
		return fail_set(fail, E_NOMEM, "no memory to read the body");
	case json_error_invalid_utf8:
		buf_add_z(&why, "a string is not valid UTF-8");
		break;
	case json_error_stack_overflow:
		buf_add_z(&why, "it is nested too deeply");
		break;
	case json_error_numeric_overflow:
		buf_add_z(&why, "a number is too large");
		break;
	default:
		utf8_add_clean(&why, str_of(e->text));
		if (strstr(e->text, "invalid Unicode"))
			buf_add_z(&why, " (half of a surrogate pair)");
	}
	fail_set(fail, E_JSON, "the body is not valid JSON: line %d, column %d: %s",
		 e->line, e->column, why.p);
	buf_deinit(&why);
	return E_JSON;
}

/* True if v is nested deeper than limit. Stops at the limit, because this check recurses
 * too. */
static bool is_too_deep(const json_t *v, int limit)
{
	if (limit == 0)
		return true;
	if (json_is_array(v)) {
		for (size_t i = 0; i < json_array_size(v); i++) {
			const json_t *item = json_array_get(v, i);
			if (!json_is_integer(item) && is_too_deep(item, limit - 1))
				return true;
		}
	} else if (json_is_object(v)) {
		const char *key;
		json_t *item;
		json_object_foreach((json_t *)v, key, item)
			if (is_too_deep(item, limit - 1))
				return true;
	}
	return false;
}

enum status json_read_parse(struct str body, json_t **out, struct fail *fail)
{
	static const struct str mark = STR("\xef\xbb\xbf");
	json_error_t e;
	/* A byte order mark may be ignored (RFC 8259, section 8.1). */
	if (str_starts(body, mark))
		body = (struct str){body.p + mark.n, body.n - mark.n};
	json_t *v = json_fast_load(body);
	if (!v)
		v = json_text_load(body, JSON_TEXT_STRICT, &e);
	if (!v)
		return fail_syntax(&e, fail);
	if (!json_is_object(v)) {
		json_decref(v);
		return fail_set(fail, E_INVAL, "the body must be a JSON object");
	}
	if (is_too_deep(v, JSON_READ_MAX_DEPTH)) {
		json_decref(v);
		return fail_set(fail, E_JSON,
				"the body is nested deeper than %d levels",
				JSON_READ_MAX_DEPTH);
	}
	*out = v;
	return OK;
}

/* --- nodes -------------------------------------------------------------- */

static const json_t *not_null(const json_t *v)
{
	return json_is_null(v) ? NULL : v;
}

struct json_node json_read_root(const json_t *v)
{
	return (struct json_node){.v = not_null(v)};
}

struct json_node json_read_get(const struct json_node *obj, const char *key)
{
	const json_t *v = obj->v ? json_object_get(obj->v, key) : NULL;
	return (struct json_node){.v = not_null(v), .up = obj, .key = key};
}

struct json_node json_read_item(const struct json_node *list, size_t i)
{
	const json_t *v = list->v ? json_array_get(list->v, i) : NULL;
	return (struct json_node){.v = not_null(v), .up = list, .index = i};
}

static const struct str *origin_of(const struct json_paths *paths,
				   const struct json_node *at)
{
	const struct str *s = NULL;
	if (at->key && at->up->v)
		s = json_paths_find(paths, at->up->v, at->key);
	bool is_own = json_is_object(at->v) || json_is_array(at->v);
	return s || !is_own ? s : json_paths_find(paths, at->v, NULL);
}

static void add_path(const struct json_node *at, const struct json_paths *paths,
		     struct buf *out)
{
	const struct str *origin = paths && at->up ? origin_of(paths, at) : NULL;
	if (origin) {
		buf_add_str(out, *origin);
		return;
	}
	if (!at->up)
		return;
	add_path(at->up, paths, out);
	if (at->key)
		buf_addf(out, "%s%s", out->n ? "." : "", at->key);
	else
		buf_addf(out, "[%zu]", at->index);
}

void json_read_path(const struct json_node *at, struct buf *out)
{
	const struct json_node *root = at;
	struct buf path = {0};
	while (root->up)
		root = root->up;
	add_path(at, root->paths, &path);
	buf_add_str(out, buf_str(&path));
	buf_deinit(&path);
}

void json_read_locate(const struct json_node *at, struct fail *fail)
{
	struct buf path = {0};
	if (!fail)
		return;
	json_read_path(at, &path);
	struct str s = json_read_clip(buf_str(&path), sizeof fail->param - 1);
	snprintf(fail->param, sizeof fail->param, "%.*s", (int)s.n, s.n ? s.p : "");
	buf_deinit(&path);
}

enum status json_read_fail(const struct json_node *at, struct fail *fail,
			   const char *fmt, ...)
{
	if (!fail)
		return E_INVAL;
	char what[sizeof fail->text];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	struct buf path = {0};
	json_read_path(at, &path);
	buf_reserve(&path, 0);
	struct str shown = json_read_clip(buf_str(&path), MAX_SHOWN_PATH);
	fail_at(fail, E_INVAL, path.p, "`%.*s` %s", (int)shown.n, shown.p, what);
	buf_deinit(&path);
	return E_INVAL;
}

/* --- values ------------------------------------------------------------- */

static enum status fail_type(const struct json_node *at, const char *want,
			     struct fail *fail)
{
	return json_read_fail(at, fail, "must be %s, not %s", want,
			      jsonfile_type(at->v));
}

enum status json_read_need(const struct json_node *at, struct fail *fail)
{
	return at->v ? OK : json_read_fail(at, fail, "is required");
}

enum status json_read_bool(const struct json_node *at, bool *io,
			   struct fail *fail)
{
	if (!at->v)
		return OK;
	if (!json_is_boolean(at->v))
		return fail_type(at, "true or false", fail);
	*io = json_is_true(at->v);
	return OK;
}

enum status json_read_int(const struct json_node *at, int64_t min, int64_t max,
			  int64_t *io, struct fail *fail)
{
	if (!at->v)
		return OK;
	json_int_t v;
	if (json_is_integer(at->v)) {
		v = json_integer_value(at->v);
	} else if (json_is_real(at->v)) {
		double d = json_real_value(at->v);
		/* beyond 2^53 a double may stand for several integers */
		if (d != floor(d) || fabs(d) > 0x1p53)
			return fail_type(at, "an integer", fail);
		v = (json_int_t)d;
	} else {
		return fail_type(at, "an integer", fail);
	}
	if (v < min)
		return json_read_fail(at, fail, "must be at least %lld, got %lld",
				      (long long)min, (long long)v);
	if (v > max)
		return json_read_fail(at, fail, "must be at most %lld, got %lld",
				      (long long)max, (long long)v);
	*io = v;
	return OK;
}

enum status json_read_num(const struct json_node *at, double min, double max,
			  double *io, struct fail *fail)
{
	if (!at->v)
		return OK;
	if (!json_is_number(at->v))
		return fail_type(at, "a number", fail);
	double v = json_number_value(at->v);
	/* this form also refuses NaN */
	if (!(v >= min && v <= max))
		return json_read_fail(at, fail,
				      "must be between %g and %g, got %g", min,
				      max, v);
	*io = v;
	return OK;
}

struct str json_read_view(const json_t *string)
{
	return (struct str){json_string_value(string),
			    json_string_length(string)};
}

struct str json_read_clip(struct str s, size_t max)
{
	if (s.n <= max)
		return s;
	s.n = max;
	s.n -= utf8_partial_tail(s);
	return s;
}

enum status json_read_str(const struct json_node *at, struct str *io,
			  struct fail *fail)
{
	if (!at->v)
		return OK;
	if (!json_is_string(at->v))
		return fail_type(at, "a string", fail);
	*io = json_read_view(at->v);
	return OK;
}

enum status json_read_list(const struct json_node *at, size_t max,
			   size_t *out_n, struct fail *fail)
{
	*out_n = 0;
	if (!at->v)
		return OK;
	if (!json_is_array(at->v))
		return fail_type(at, "a list", fail);
	size_t n = json_array_size(at->v);
	if (n > max)
		return json_read_fail(at, fail,
				      "must have at most %zu items, got %zu", max,
				      n);
	*out_n = n;
	return OK;
}

enum status json_read_object(const struct json_node *at, struct fail *fail)
{
	if (at->v && !json_is_object(at->v))
		return fail_type(at, "an object", fail);
	return OK;
}

enum status json_read_need_str(const struct json_node *at, struct str *out,
			       struct fail *fail)
{
	enum status st = json_read_need(at, fail);
	return st == OK ? json_read_str(at, out, fail) : st;
}

enum status json_read_need_text(const struct json_node *at, const char *key, struct str *out,
				struct fail *fail)
{
	struct json_node text = json_read_get(at, key);
	return json_read_need_str(&text, out, fail);
}

enum status json_read_need_object(const struct json_node *at, struct fail *fail)
{
	enum status st = json_read_need(at, fail);
	return st == OK ? json_read_object(at, fail) : st;
}
