/* SPDX-License-Identifier: Apache-2.0
 *
 * Negation: makes a schema of documents that do not match a given schema. Such a document
 * violates at least one keyword. Each keyword whose violation a schema can express is one
 * branch of an anyOf. Other violations are left out. The result thus never matches the
 * given schema, but it may miss some documents that do not match either.
 */
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

#define MAX_NOT_DEPTH 24

struct negation {
	struct schema_reader *x;
	json_t *ways;    /* the branches of the anyOf */
	bool is_partial; /* the violation of some keyword could not be expressed */
};

static json_t *not_at(struct schema_reader *x, const struct json_node *at, int depth);

static void add_way(struct negation *n, json_t *way)
{
	if (json_is_false(way))
		json_decref(way);
	else if (way)
		json_array_append_new(n->ways, way);
	else
		n->is_partial = true;
}

/* {"type": type, key: v}; takes ownership of v. */
static json_t *typed(const char *type, const char *key, json_t *v)
{
	return json_pack("{ssso}", "type", type, key, v);
}

static void break_type(struct negation *n, const struct json_node *schema)
{
	static const struct {
		int type;
		const char *name;
	} names[] = {{TYPE_NULL, "null"}, {TYPE_BOOL, "boolean"}, {TYPE_INTEGER, "integer"},
		     {TYPE_FRACTION, SCHEMA_FRACTION}, {TYPE_STRING, "string"},
		     {TYPE_ARRAY, "array"}, {TYPE_OBJECT, "object"}};
	int types = schema_type(n->x, schema);
	json_t *others = json_array();
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!(types & names[i].type))
			json_array_append_new(others, json_string(names[i].name));
	if (json_array_size(others))
		add_way(n, json_pack("{so}", "type", others));
	else
		json_decref(others);
}

/* Violates a minimal or maximal count of v. */
static void break_count(struct negation *n, const char *type, const char *key,
			const json_t *v)
{
	bool is_min = strncmp(key, "min", 3) == 0;
	double limit = MIN(json_number_value(v), 1e15);
	char other[32];
	snprintf(other, sizeof other, "%s%s", is_min ? "max" : "min", key + 3);
	if (is_min && limit > 0)
		add_way(n, typed(type, other, json_integer((json_int_t)limit - 1)));
	else if (!is_min && limit < 1e9)
		add_way(n, typed(type, other, json_integer((json_int_t)limit + 1)));
}

static void break_bound(struct negation *n, const char *key, json_t *v)
{
	static const char *const pairs[][2] = {{"minimum", "exclusiveMaximum"},
					       {"exclusiveMinimum", "maximum"},
					       {"maximum", "exclusiveMinimum"},
					       {"exclusiveMaximum", "minimum"}};
	/* In draft 4 the value is a boolean that modifies another keyword. */
	if (!json_is_number(v))
		n->is_partial = true;
	for (size_t i = 0; i < ARRAY_LEN(pairs) && json_is_number(v); i++)
		if (strcmp(key, pairs[i][0]) == 0)
			add_way(n, typed("number", pairs[i][1], json_incref(v)));
}

static void break_properties(struct negation *n, const struct json_node *at, int depth)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)at->v, key, v) {
		json_t *not = not_at(n->x, schema_get(n->x, at, key), depth + 1);
		if (not && !json_is_false(not))
			not = json_pack("{sss[s]s{so}}", "type", "object", "required", key,
					"properties", key, not);
		add_way(n, not);
	}
}

static void break_required(struct negation *n, const json_t *names)
{
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));
		if (name)
			add_way(n, json_pack("{sss{so}}", "type", "object", "properties",
					     name, json_false()));
	}
}

static void break_items(struct negation *n, const struct json_node *schema,
			const struct json_node *items, int depth)
{
	json_t *not = NULL;
	bool has_prefix = json_object_get(schema->v, "prefixItems") ||
			  json_is_array(items->v);
	if (!has_prefix)
		not = not_at(n->x, items, depth + 1);
	if (not && !json_is_false(not))
		not = typed("array", "contains", not);
	add_way(n, not);
}

static void break_contains(struct negation *n, const struct json_node *schema,
			   const struct json_node *at, int depth)
{
	json_t *not = NULL;
	if (!json_object_get(schema->v, "minContains"))
		not = not_at(n->x, at, depth + 1);
	/* "no item matches": if every item matches, the array must be empty. */
	if (json_is_false(not)) {
		json_decref(not);
		not = typed("array", "maxItems", json_integer(0));
	} else if (not) {
		not = typed("array", "items", not);
	}
	add_way(n, not);
}

/* Violates a format. A text outside the format's outline is no text of the format for any
 * reader. A format that is not enforced permits all texts. */
static void break_format(struct negation *n, const json_t *v)
{
	struct str name = json_is_string(v) ? json_read_view(v) : STR("");
	const char *outline = schema_format_outline(n->x, name);
	if (outline)
		add_way(n, typed("string", SCHEMA_NOT_PATTERN, json_string(outline)));
	else
		n->is_partial |= schema_format(name) != NULL;
}

/* Violates a list. is_all (allOf): one schema does not match. Else (anyOf): none matches. */
static void break_list(struct negation *n, const struct json_node *at, bool is_all,
		       int depth)
{
	json_t *all = json_array();
	bool is_whole = true;
	for (size_t i = 0; i < json_array_size(at->v); i++) {
		json_t *not = not_at(n->x, schema_item(n->x, at, i), depth + 1);
		if (is_all) {
			add_way(n, not);
			continue;
		}
		is_whole &= not && !json_is_false(not);
		if (not)
			json_array_append_new(all, not);
		else
			n->is_partial = true;
	}
	if (!is_all && is_whole)
		add_way(n, json_pack("{sO}", "allOf", all));
	json_decref(all);
}

static void break_keyword(struct negation *n, const struct json_node *schema,
			  const char *key, int depth)
{
	static const char *const counts[][2] = {
		{"minLength", "string"}, {"maxLength", "string"}, {"minItems", "array"},
		{"maxItems", "array"}, {"minProperties", "object"},
		{"maxProperties", "object"}};
	const struct json_node *at = schema_get(n->x, schema, key);
	if (strcmp(key, "type") == 0) {
		break_type(n, schema);
	} else if (strcmp(key, "enum") == 0 && json_is_array(at->v)) {
		add_way(n, json_pack("{sO}", SCHEMA_NOT_VALUES, at->v));
	} else if (strcmp(key, "pattern") == 0) {
		add_way(n, typed("string", SCHEMA_NOT_PATTERN, json_incref((json_t *)at->v)));
	} else if (strcmp(key, "format") == 0) {
		break_format(n, at->v);
	} else if (strcmp(key, SCHEMA_NOT_PATTERN) == 0) {
		add_way(n, typed("string", "pattern", json_incref((json_t *)at->v)));
	} else if (strcmp(key, SCHEMA_NOT_VALUES) == 0) {
		add_way(n, json_pack("{sO}", "enum", at->v));
	} else if (strcmp(key, "properties") == 0) {
		break_properties(n, at, depth);
	} else if (strcmp(key, "required") == 0) {
		break_required(n, at->v);
	} else if (strcmp(key, "items") == 0) {
		break_items(n, schema, at, depth);
	} else if (strcmp(key, "contains") == 0) {
		break_contains(n, schema, at, depth);
	} else if (strcmp(key, "allOf") == 0) {
		break_list(n, at, true, depth);
	} else if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) {
		break_list(n, at, false, depth);
	} else if (strcmp(key, "not") == 0) {
		add_way(n, json_incref((json_t *)at->v));
	} else if (strcmp(key, "$ref") == 0) {
		const struct json_node *to = schema_resolve(n->x, at);
		add_way(n, to ? not_at(n->x, to, depth + 1) : NULL);
	} else if (schema_keyword_types(key) == TYPE_NUMBER &&
		   strcmp(key, "multipleOf") != 0) {
		break_bound(n, key, (json_t *)at->v);
	} else {
		bool is_count = false;
		for (size_t i = 0; i < ARRAY_LEN(counts); i++)
			if (strcmp(key, counts[i][0]) == 0) {
				is_count = true;
				break_count(n, counts[i][1], key, at->v);
			}
		n->is_partial |= !is_count && (schema_keyword_types(key) ||
					       strcmp(key, "if") == 0 ||
					       strcmp(key, "$dynamicRef") == 0 ||
					       strcmp(key, "$recursiveRef") == 0);
	}
}

static json_t *not_at(struct schema_reader *x, const struct json_node *at, int depth)
{
	const char *key;
	json_t *v;
	schema_work(x, 40);
	if (json_is_boolean(at->v))
		return json_boolean(json_is_false(at->v));
	if (!json_is_object(at->v) || depth > MAX_NOT_DEPTH || x->st != OK)
		return NULL;
	struct negation n = {.x = x, .ways = json_array()};
	json_object_foreach((json_t *)at->v, key, v)
		if (strcmp(key, "const") != 0)
			break_keyword(&n, at, key, depth);
	json_t *one = json_object_get(at->v, "const");
	if (one)
		add_way(&n, json_pack("{s[O]}", SCHEMA_NOT_VALUES, one));
	size_t n_ways = json_array_size(n.ways);
	json_t *out = NULL;
	if (n_ways == 1)
		out = json_incref(json_array_get(n.ways, 0));
	else if (n_ways > 1)
		out = json_pack("{sO}", "anyOf", n.ways);
	else if (!n.is_partial)
		out = json_false();
	json_decref(n.ways);
	return out;
}

json_t *schema_not(struct schema_reader *x, const struct json_node *at)
{
	struct str key = {(const char *)&at->v, sizeof at->v};
	json_t *known = schema_made(x, key);
	return known ? known : schema_remember(x, key, not_at(x, at, 0));
}
