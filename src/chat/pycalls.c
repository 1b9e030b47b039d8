/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/pycalls.h"

#include <ctype.h>
#include <stdlib.h>

#include "chat/value.h"
#include "json/json_digits.h"

static void add_value(struct buf *out, const json_t *v)
{
	const char *key, *sep = "";
	json_t *item;
	if (json_is_object(v)) {
		buf_add_c(out, '{');
		json_object_foreach((json_t *)(uintptr_t)v, key, item) {
			buf_add_z(out, sep);
			buf_add_json(out, str_of(key));
			buf_add_z(out, ": ");
			add_value(out, item);
			sep = ", ";
		}
		buf_add_c(out, '}');
	} else if (json_is_array(v)) {
		buf_add_c(out, '[');
		for (size_t i = 0; i < json_array_size(v); i++, sep = ", ") {
			buf_add_z(out, sep);
			add_value(out, json_array_get(v, i));
		}
		buf_add_c(out, ']');
	} else if (json_is_string(v)) {
		buf_add_json(out, json_read_view(v));
	} else if (json_is_number(v)) {
		json_digits_add(v, out);
	} else {
		buf_add_z(out, json_is_true(v) ? "True" : json_is_false(v) ? "False" : "None");
	}
}

static bool is_name(const char *s)
{
	bool is_good = isalpha((unsigned char)*s) || *s == '_';
	for (; *s && is_good; s++)
		is_good = isalnum((unsigned char)*s) || *s == '_';
	return is_good;
}

/* Writes a call's arguments: name=value, … A name that Python does not take as an
 * argument's, like "a-b", goes into a dict at the end: **{"a-b": value}. */
static void add_args(struct buf *out, const json_t *args)
{
	const char *key, *sep = "";
	json_t *item, *others = json_object();
	json_object_foreach((json_t *)(uintptr_t)args, key, item) {
		if (!is_name(key)) {
			json_object_set(others, key, item);
			continue;
		}
		buf_addf(out, "%s%s=", sep, key);
		add_value(out, item);
		sep = ", ";
	}
	if (json_object_size(others)) {
		buf_addf(out, "%s**", sep);
		add_value(out, others);
	}
	json_decref(others);
}

/* Writes a call as a JSON object. */
static void add_object(struct buf *out, const char *name, const json_t *args)
{
	buf_add_z(out, "{\"name\": ");
	buf_add_json(out, str_of(name));
	buf_add_z(out, ", \"arguments\": ");
	if (args)
		json_digits_write(args, true, out);
	else
		buf_add_z(out, "{}");
	buf_add_c(out, '}');
}

void pycalls_add(const struct json_node *calls, struct str open, struct str close,
		 bool is_json, struct marked *out)
{
	struct buf text = {0};
	buf_add_c(&text, '[');
	for (size_t i = 0; i < json_array_size(calls->v); i++) {
		const json_t *fn = json_object_get(json_array_get(calls->v, i), "function");
		json_t *args = json_object_get(fn, "arguments"), *read = NULL;
		if (json_is_string(args)) {
			struct str s = json_read_view(args);
			args = read = value_read_args(s);
		}
		const char *name = json_string_value(json_object_get(fn, "name"));
		buf_add_z(&text, i ? ", " : "");
		if (is_json) {
			add_object(&text, name, args);
		} else {
			buf_addf(&text, "%s(", name);
			add_args(&text, args);
			buf_add_c(&text, ')');
		}
		json_decref(read);
	}
	buf_add_c(&text, ']');
	marked_add(out, open, TRUST_TEMPLATE);
	marked_add(out, buf_str(&text), TRUST_USER);
	marked_add(out, close, TRUST_TEMPLATE);
	buf_deinit(&text);
}
