/* SPDX-License-Identifier: Apache-2.0 */
#include "json/jsonfile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"

/* real files of models nest at most seven levels (a tokenizer's) */
#define MAX_DEPTH 64
#define MAX_PROCESSOR_BYTES ((size_t)16 << 20)

/* Maximal nesting of brackets outside of strings. Checked before parsing, to limit the
 * parser's recursion. */
static int nesting(struct str text)
{
	int depth = 0, deepest = 0;
	bool in_string = false;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (in_string) {
			if (c == '\\')
				i++;
			in_string = c != '"';
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			depth++;
			deepest = MAX(deepest, depth);
		} else if (c == '}' || c == ']') {
			depth--;
		}
	}
	return deepest;
}

enum status jsonfile_parse(struct str text, const char *path, enum json_text_mode mode,
			   json_t **out, struct fail *fail)
{
	if (nesting(text) > MAX_DEPTH)
		return fail_set(fail, E_FORMAT, "%s: nested deeper than %d levels",
				path, MAX_DEPTH);
	json_error_t e;
	json_t *v = json_text_load(text, mode, &e);
	if (!v)
		return fail_set(fail, E_FORMAT, "%s, line %d: %s", path, e.line,
				e.text);
	if (!json_is_object(v)) {
		json_decref(v);
		return fail_set(fail, E_FORMAT, "%s: not a JSON object", path);
	}
	*out = v;
	return OK;
}

enum status jsonfile_load(const char *dir, const char *name, size_t max_bytes,
			  json_t **out, struct fail *fail)
{
	char *path = file_join(dir, name);
	struct buf text = {0};
	enum status st;
	if (!file_exists(path))
		st = fail_set(fail, E_MISSING, "there is no %s", path);
	else
		st = file_read(path, max_bytes, &text, fail);
	if (st == OK && file_is_lfs_pointer(buf_str(&text), path, fail))
		st = E_FORMAT;
	if (st == OK)
		st = jsonfile_parse(buf_str(&text), path, JSON_TEXT_PYTHON, out, fail);
	buf_deinit(&text);
	free(path);
	return st;
}

const char *jsonfile_type(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",
		[JSON_STRING] = "a string",  [JSON_INTEGER] = "an integer",
		[JSON_REAL] = "a number",    [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",      [JSON_NULL] = "null",
	};
	const char *odd = json_text_odd_float(v);
	return odd ? odd : v ? names[json_typeof(v)] : "missing";
}

const json_t *jsonfile_get(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	return json_is_null(v) ? NULL : v;
}

enum status jsonfile_numbers(const json_t *from, const char *what,
			     const struct jsonfile_number *s, size_t n, void *to,
			     struct fail *fail)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *v = jsonfile_get(from, s[i].key);
		int32_t *number = (int32_t *)(void *)((char *)to + s[i].at);
		if (!v && s[i].fallback < 0)
			return fail_at(fail, E_MISSING, s[i].key, "%s.%s is missing", what,
				       s[i].key);
		json_int_t k = !v ? s[i].fallback
			       : json_is_integer(v) ? json_integer_value(v) : s[i].min - 1;
		if (k < s[i].min || k > s[i].max)
			return fail_at(fail, E_FORMAT, s[i].key, "%s.%s is not a number from "
				       "%d to %d", what, s[i].key, s[i].min, s[i].max);
		*number = (int32_t)k;
	}
	return OK;
}

enum status jsonfile_processor(const char *dir, const char *part, json_t **out,
			       struct fail *fail)
{
	json_t *file = NULL;
	*out = NULL;
	enum status st = jsonfile_load(dir, "preprocessor_config.json", MAX_PROCESSOR_BYTES, out,
				       fail);
	if (st != E_MISSING)
		return st;
	st = jsonfile_load(dir, "processor_config.json", MAX_PROCESSOR_BYTES, &file, fail);
	*out = json_incref((json_t *)jsonfile_get(file, part));
	json_decref(file);
	return st == E_MISSING ? OK : st;
}
