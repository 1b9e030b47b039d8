/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a value matches a schema. Used for the values of enum and const: only
 * values that match all schemas of their place are written. VALUE_UNKNOWN: a keyword
 * cannot be judged here.
 */
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "schema/schema_private.h"
#include "base/alloc.h"
#include "base/utf8.h"

#define MAX_VALUE_DEPTH 64

struct judge {
	struct schema_reader *x;
	int depth;
};

static enum schema_verdict judge_at(struct judge *j, const struct json_node *at,
				    const json_t *v);

static enum schema_verdict both(enum schema_verdict a, enum schema_verdict b)
{
	if (a == VALUE_NO || b == VALUE_NO)
		return VALUE_NO;
	return a == VALUE_YES && b == VALUE_YES ? VALUE_YES : VALUE_UNKNOWN;
}

static enum schema_verdict yes_if(bool is_so)
{
	return is_so ? VALUE_YES : VALUE_NO;
}

/* --- numbers and strings -------------------------------------------------------- */

static enum schema_verdict judge_multiple(const json_t *v, const json_t *step)
{
	bool are_integers = json_digits_is_integer(v) && json_digits_is_integer(step);
	json_wide a = json_digits_round(v, false), b = json_digits_round(step, false);
	bool are_held = b > 0 && MAX(MAX(a, -a), b) <= JSON_WIDE_MAX;
	if (are_integers && are_held)
		return yes_if(a % b == 0);
	double q = json_number_value(v) / json_number_value(step);
	if (!(fabs(q) <= 1e9) || !(json_number_value(step) > 0))
		return VALUE_UNKNOWN;
	return fabs(q - round(q)) < 1e-9 ? VALUE_YES : VALUE_NO;
}

static enum schema_verdict judge_number(const json_t *schema, const char *key,
					const json_t *v)
{
	const json_t *limit = json_object_get(schema, key);
	bool is_exclusive = strncmp(key, "exclusive", 9) == 0;
	bool is_max = strcasecmp(key + (is_exclusive ? 9 : 0), "maximum") == 0;
	/* In draft 4 the boolean modifies the other keyword. */
	if (json_is_true(limit) && is_exclusive) {
		const json_t *own = json_object_get(schema, is_max ? "maximum" : "minimum");
		return yes_if(!json_is_number(own) || json_digits_compare(v, own) != 0);
	}
	if (json_is_false(limit))
		return VALUE_YES;
	if (!json_is_number(limit))
		return VALUE_UNKNOWN;
	if (strcmp(key, "multipleOf") == 0)
		return judge_multiple(v, limit);
	int order = json_digits_compare(v, limit);
	return yes_if(order == 0 ? !is_exclusive : (order < 0) == is_max);
}

static enum schema_verdict judge_regex(struct judge *j, const struct json_node *at,
				       const json_t *v, bool is_not)
{
	lang l;
	if (!schema_pattern(j->x, at, &l))
		return VALUE_UNKNOWN;
	bool matches = lang_matches(j->x->langs, l, json_read_view(v));
	return lang_is_over(j->x->langs) ? VALUE_UNKNOWN : yes_if(matches != is_not);
}

static enum schema_verdict judge_format(struct judge *j, const struct json_node *at,
					const json_t *v)
{
	const char *regex = json_is_string(at->v)
				    ? schema_format(json_read_view(at->v)) : NULL;
	lang l;
	struct fail ignored;
	if (!regex)
		return VALUE_YES;
	if (lang_regex(j->x->langs, str_of(regex), false, &l, &ignored) == OK &&
	    lang_matches(j->x->langs, l, json_read_view(v)))
		return VALUE_YES;
	return VALUE_UNKNOWN; /* halod writes only a subset of the format's texts */
}

static enum schema_verdict judge_string(struct judge *j, const char *key,
					const struct json_node *at, const json_t *v)
{
	double n = (double)utf8_count(json_read_view(v));
	if (strcmp(key, "minLength") == 0)
		return yes_if(n >= json_number_value(at->v));
	if (strcmp(key, "maxLength") == 0)
		return yes_if(n <= json_number_value(at->v));
	if (strcmp(key, "format") == 0)
		return judge_format(j, at, v);
	return judge_regex(j, at, v, strcmp(key, SCHEMA_NOT_PATTERN) == 0);
}

/* --- arrays ------------------------------------------------------------------------ */

static enum schema_verdict judge_items(struct judge *j, const struct json_node *schema,
				       const json_t *v)
{
	const struct json_node *prefix = schema_get(j->x, schema, "prefixItems");
	const struct json_node *items = schema_get(j->x, schema, "items");
	const struct json_node *rest = items;
	enum schema_verdict out = VALUE_YES;
	if (json_is_array(items->v)) {
		prefix = items;
		rest = schema_get(j->x, schema, "additionalItems");
	}
	for (size_t i = 0; i < json_array_size(v) && out != VALUE_NO; i++) {
		bool in_prefix = i < json_array_size(prefix->v);
		const struct json_node *at = in_prefix ? schema_item(j->x, prefix, i) : rest;
		if (at->v)
			out = both(out, judge_at(j, at, json_array_get(v, i)));
	}
	return out;
}

static enum schema_verdict judge_contains(struct judge *j, const struct json_node *schema,
					  const struct json_node *at, const json_t *v)
{
	const json_t *min = json_object_get(schema->v, "minContains");
	const json_t *max = json_object_get(schema->v, "maxContains");
	size_t n_yes = 0, n_unknown = 0;
	for (size_t i = 0; i < json_array_size(v); i++) {
		enum schema_verdict one = judge_at(j, at, json_array_get(v, i));
		n_yes += one == VALUE_YES;
		n_unknown += one == VALUE_UNKNOWN;
	}
	if (n_unknown)
		return VALUE_UNKNOWN;
	return yes_if((double)n_yes >= (min ? json_number_value(min) : 1) &&
		      (!max || (double)n_yes <= json_number_value(max)));
}

static bool are_unique(struct judge *j, const json_t *v)
{
	size_t n = json_array_size(v);
	schema_work(j->x, n * n);
	for (size_t i = 0; i < n && j->x->st == OK; i++)
		for (size_t k = i + 1; k < n; k++)
			if (json_digits_equal(json_array_get(v, i), json_array_get(v, k)))
				return false;
	return true;
}

static enum schema_verdict judge_array(struct judge *j, const struct json_node *schema,
				       const char *key, const struct json_node *at,
				       const json_t *v)
{
	double n = (double)json_array_size(v);
	if (strcmp(key, "minItems") == 0)
		return yes_if(n >= json_number_value(at->v));
	if (strcmp(key, "maxItems") == 0)
		return yes_if(n <= json_number_value(at->v));
	if (strcmp(key, "uniqueItems") == 0)
		return yes_if(!json_is_true(at->v) || are_unique(j, v));
	if (strcmp(key, "items") == 0 || strcmp(key, "prefixItems") == 0)
		return judge_items(j, schema, v);
	if (strcmp(key, "contains") == 0)
		return judge_contains(j, schema, at, v);
	if (strcmp(key, "unevaluatedItems") == 0)
		return VALUE_UNKNOWN;
	return VALUE_YES; /* handled together with another keyword */
}

/* --- objects ------------------------------------------------------------------------- */

static enum schema_verdict judge_member(struct judge *j, const struct json_node *schema,
					const char *name, const json_t *v)
{
	const struct json_node *own = schema_get(j->x, schema, "properties");
	const struct json_node *patterns = schema_get(j->x, schema, "patternProperties");
	const struct json_node *other = schema_get(j->x, schema, "additionalProperties");
	enum schema_verdict out = VALUE_YES;
	bool is_known = json_object_get(own->v, name) != NULL;
	const char *key;
	json_t *of;
	if (is_known)
		out = judge_at(j, schema_get(j->x, own, name), v);
	json_object_foreach((json_t *)patterns->v, key, of) {
		json_t *text = json_string(key);
		const struct json_node at = {.v = text, .up = patterns, .key = key};
		lang l;
		bool has = schema_pattern(j->x, &at, &l);
		json_decref(text);
		if (!has)
			return VALUE_UNKNOWN;
		if (!lang_matches(j->x->langs, l, str_of(name)))
			continue;
		is_known = true;
		out = both(out, judge_at(j, schema_get(j->x, patterns, key), v));
	}
	if (!is_known && other->v)
		out = both(out, judge_at(j, other, v));
	return out;
}

static enum schema_verdict judge_members(struct judge *j, const struct json_node *schema,
					 const json_t *v)
{
	enum schema_verdict out = VALUE_YES;
	const char *key;
	json_t *item;
	json_object_foreach((json_t *)v, key, item)
		out = both(out, judge_member(j, schema, key, item));
	return out;
}

static bool has_all(const json_t *v, const json_t *names)
{
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *s = json_string_value(json_array_get(names, i));
		if (!s || !json_object_get(v, s))
			return false;
	}
	return true;
}

static enum schema_verdict judge_dependents(struct judge *j, const struct json_node *at,
					    const json_t *v)
{
	enum schema_verdict out = VALUE_YES;
	const char *key;
	json_t *asks;
	json_object_foreach((json_t *)at->v, key, asks) {
		if (!json_object_get(v, key))
			continue;
		out = both(out, json_is_array(asks)
				? yes_if(has_all(v, asks))
				: judge_at(j, schema_get(j->x, at, key), v));
	}
	return out;
}

static enum schema_verdict judge_names(struct judge *j, const struct json_node *at,
				       const json_t *v)
{
	enum schema_verdict out = VALUE_YES;
	const char *key;
	json_t *item;
	json_object_foreach((json_t *)v, key, item) {
		json_t *name = json_string(key);
		out = both(out, judge_at(j, at, name));
		json_decref(name);
	}
	return out;
}

static enum schema_verdict judge_object(struct judge *j, const struct json_node *schema,
					const char *key, const struct json_node *at,
					const json_t *v)
{
	double n = (double)json_object_size(v);
	if (strcmp(key, "minProperties") == 0)
		return yes_if(n >= json_number_value(at->v));
	if (strcmp(key, "maxProperties") == 0)
		return yes_if(n <= json_number_value(at->v));
	if (strcmp(key, "required") == 0)
		return yes_if(has_all(v, at->v));
	if (strcmp(key, "propertyNames") == 0)
		return judge_names(j, at, v);
	if (strcmp(key, "unevaluatedProperties") == 0)
		return VALUE_UNKNOWN;
	if (strncmp(key, "depend", 6) == 0)
		return judge_dependents(j, at, v);
	return judge_members(j, schema, v);
}

/* --- of every type ---------------------------------------------------------------------- */

/* Counts how many schemas of the list match; there must be min to max of them. */
static enum schema_verdict judge_list(struct judge *j, const struct json_node *at,
				      const json_t *v, size_t min, size_t max)
{
	size_t n_yes = 0, n_unknown = 0;
	for (size_t i = 0; i < json_array_size(at->v); i++) {
		enum schema_verdict one = judge_at(j, schema_item(j->x, at, i), v);
		n_yes += one == VALUE_YES;
		n_unknown += one == VALUE_UNKNOWN;
	}
	if (n_yes > max || n_yes + n_unknown < min)
		return VALUE_NO;
	return n_yes >= min && n_yes + n_unknown <= max ? VALUE_YES : VALUE_UNKNOWN;
}

static enum schema_verdict negate(enum schema_verdict of)
{
	return of == VALUE_UNKNOWN ? of : yes_if(of == VALUE_NO);
}

static enum schema_verdict judge_if(struct judge *j, const struct json_node *schema,
				    const struct json_node *at, const json_t *v)
{
	enum schema_verdict is = judge_at(j, at, v);
	const struct json_node *then =
		schema_get(j->x, schema, is == VALUE_YES ? "then" : "else");
	if (is == VALUE_UNKNOWN)
		return is;
	return then->v ? judge_at(j, then, v) : VALUE_YES;
}

static bool has_value(struct judge *j, const json_t *list, const json_t *v)
{
	schema_work(j->x, json_array_size(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (json_digits_equal(json_array_get(list, i), v))
			return true;
	}
	return false;
}

static enum schema_verdict judge_shape(struct judge *j, const struct json_node *schema,
				       const char *key, const struct json_node *at,
				       const json_t *v)
{
	size_t n = json_array_size(at->v);
	if (strcmp(key, "type") == 0) {
		return yes_if(schema_type(j->x, schema) & schema_type_of(v));
	}
	if (strcmp(key, "enum") == 0)
		return yes_if(has_value(j, at->v, v));
	if (strcmp(key, SCHEMA_NOT_VALUES) == 0)
		return yes_if(!has_value(j, at->v, v));
	if (strcmp(key, "allOf") == 0)
		return judge_list(j, at, v, n, n);
	if (strcmp(key, "anyOf") == 0)
		return judge_list(j, at, v, 1, n);
	if (strcmp(key, "oneOf") == 0)
		return judge_list(j, at, v, 1, 1);
	if (strcmp(key, "not") == 0)
		return negate(judge_at(j, at, v));
	if (strcmp(key, "if") == 0)
		return judge_if(j, schema, at, v);
	if (strcmp(key, "$ref") == 0 || strcmp(key, "$dynamicRef") == 0 ||
	    strcmp(key, "$recursiveRef") == 0) {
		const struct json_node *to = schema_resolve(j->x, at);
		return to ? judge_at(j, to, v) : VALUE_UNKNOWN;
	}
	return VALUE_YES;
}

static enum schema_verdict judge_keyword(struct judge *j, const struct json_node *schema,
					 const char *key, const json_t *v)
{
	const struct json_node *at = schema_get(j->x, schema, key);
	int types = schema_keyword_types(key);
	if (!types)
		return judge_shape(j, schema, key, at, v);
	if (!(types & schema_type_of(v)))
		return VALUE_YES;
	switch (types) {
	case TYPE_STRING: return judge_string(j, key, at, v);
	case TYPE_ARRAY: return judge_array(j, schema, key, at, v);
	case TYPE_OBJECT: return judge_object(j, schema, key, at, v);
	default: return judge_number(schema->v, key, v);
	}
}

static enum schema_verdict judge_at(struct judge *j, const struct json_node *at,
				    const json_t *v)
{
	enum schema_verdict out = VALUE_YES;
	const char *key;
	json_t *of;
	schema_work(j->x, 20);
	if (json_is_boolean(at->v))
		return yes_if(json_is_true(at->v));
	if (j->x->st != OK || !json_is_object(at->v) || j->depth > MAX_VALUE_DEPTH)
		return VALUE_UNKNOWN;
	j->depth++;
	json_object_foreach((json_t *)at->v, key, of)
		if (out != VALUE_NO && strcmp(key, "const") != 0)
			out = both(out, judge_keyword(j, at, key, v));
	j->depth--;
	/* as a const, null is a value and does not mean "absent" */
	const json_t *one = json_object_get(at->v, "const");
	json_t *list = one ? json_pack("[O]", one) : NULL;
	if (one && !has_value(j, list, v))
		out = VALUE_NO;
	json_decref(list);
	return out;
}

enum schema_verdict schema_allows(struct schema_reader *x, const struct json_node *at,
				  const json_t *v)
{
	struct judge j = {.x = x};
	return judge_at(&j, at, v);
}
