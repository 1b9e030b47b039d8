/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/guide.h"

#include <stdlib.h>

#include "json/json_digits.h"
#include "schema/schema.h"
#include "base/alloc.h"

#define MAX_CHOICES 100000

typedef enum status (*read_fn)(const struct json_node *at, struct grammar **out,
			       struct fail *fail);

/* Reports a fault inside a parameter's text at the parameter's path: the text has no JSON
 * path of its own. */
static enum status at_path(const struct json_node *at, enum status st,
			   const struct fail *why, struct fail *fail)
{
	if (st == OK)
		return OK;
	json_read_fail(at, fail, "cannot be used: %s", why->text);
	if (fail)
		fail->code = st;
	return st;
}

/* Reads a JSON schema, given as a value or as a string with its text. */
static enum status read_schema(const struct json_node *at, struct grammar **out,
			       struct fail *fail)
{
	if (!json_is_string(at->v))
		return schema_grammar(at, out, fail);
	json_t *v;
	struct fail why = {0};
	if (json_read_parse(json_read_view(at->v), &v, &why) != OK)
		return json_read_fail(at, fail, "must be a JSON schema: its text is not "
				      "a JSON object");
	struct json_node schema = *at;
	schema.v = v;
	enum status st = schema_grammar(&schema, out, fail);
	json_decref(v);
	return st;
}

static enum status read_regex(const struct json_node *at, struct grammar **out,
			      struct fail *fail)
{
	struct str s;
	struct fail why = {0};
	enum status st = json_read_need_str(at, &s, fail);
	return st != OK ? st
			: at_path(at, grammar_create_regex(s, out, &why), &why, fail);
}

static enum status read_grammar(const struct json_node *at, struct grammar **out,
				struct fail *fail)
{
	struct str s;
	struct fail why = {0};
	enum status st = json_read_need_str(at, &s, fail);
	return st != OK ? st
			: at_path(at, grammar_create_gbnf(s, out, &why), &why, fail);
}

static enum status read_choice(const struct json_node *at, struct grammar **out,
			       struct fail *fail)
{
	size_t n = 0;
	struct fail why = {0};
	enum status st = json_read_list(at, MAX_CHOICES, &n, fail);
	if (st == OK && n == 0)
		return json_read_fail(at, fail, "must have at least one choice");
	struct str *texts = xcalloc(n + 1, sizeof *texts);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(at, i);
		st = json_read_need_str(&item, &texts[i], fail);
	}
	if (st == OK)
		st = at_path(at, grammar_create_choice(texts, n, out, &why), &why, fail);
	free(texts);
	return st;
}

/* The value true asks for any JSON object. */
static enum status read_object(const struct json_node *at, struct grammar **out,
			       struct fail *fail)
{
	bool wanted = true;
	enum status st = json_read_bool(at, &wanted, fail);
	return st == OK && wanted ? schema_grammar_object(out, fail) : st;
}

/* Reads response_format. json_schema holds the schema beside its name; `strict` makes no
 * difference, since a schema is always kept. json_object may bring a schema along
 * (llama.cpp). */
static enum status read_format(const struct json_node *at, struct grammar **out,
			       struct fail *fail)
{
	struct json_node type = json_read_get(at, "type");
	struct json_node own = json_read_get(at, "schema");
	struct str s = STR("");
	enum status st = json_read_object(at, fail);
	if (st == OK)
		st = json_read_need_str(&type, &s, fail);
	if (st != OK || str_is(s, "text"))
		return st;
	if (str_is(s, "json_object"))
		return own.v ? read_schema(&own, out, fail)
			     : schema_grammar_object(out, fail);
	if (!str_is(s, "json_schema"))
		return json_read_fail(&type, fail, "must be \"text\", \"json_object\" "
				      "or \"json_schema\"");
	struct json_node named = json_read_get(at, "json_schema");
	struct json_node schema = json_read_get(&named, "schema");
	if (own.v && !named.v)
		return read_schema(&own, out, fail);
	st = json_read_need_object(&named, fail);
	if (st == OK)
		st = json_read_need(&schema, fail);
	return st == OK ? read_schema(&schema, out, fail) : st;
}

static const struct guide_key {
	const char *group, *name; /* group: the object that holds the key; NULL: the body */
	read_fn read;
} ways[] = {
	{NULL, "response_format", read_format},
	{NULL, "guided_json", read_schema},
	{NULL, "guided_regex", read_regex},
	{NULL, "guided_choice", read_choice},
	{NULL, "guided_grammar", read_grammar},
	{"structured_outputs", "json", read_schema},
	{"structured_outputs", "regex", read_regex},
	{"structured_outputs", "choice", read_choice},
	{"structured_outputs", "grammar", read_grammar},
	{"structured_outputs", "json_object", read_object},
	{NULL, "grammar", read_grammar},
	{NULL, "json_schema", read_schema},
};

/* Does the value ask for anything? Clients send their defaults: "" as a grammar or regex
 * and false as json_object ask for nothing. Elsewhere both are values: the schema false
 * allows nothing. A wrong type is refused, so that no mistake yields free text. */
static bool asks(const struct guide_key *way, const struct json_node *at)
{
	bool is_text = way->read == read_regex || way->read == read_grammar;
	bool is_empty = json_is_string(at->v) && json_string_length(at->v) == 0;
	bool is_off = json_is_false(at->v) && way->read == read_object;
	return at->v && !(is_text && is_empty) && !is_off;
}

static bool is_default(const struct json_node *at)
{
	return !at->v || json_is_false(at->v) ||
	       (json_is_string(at->v) && json_string_length(at->v) == 0);
}

/* Refuses a key of the group that no row of `ways` reads: it would have no effect. */
static enum status check_group(const struct json_node *group, struct fail *fail)
{
	const char *key;
	json_t *v;
	enum status st = json_read_object(group, fail);
	if (st != OK || !group->v)
		return st;
	json_object_foreach((json_t *)group->v, key, v) {
		bool is_known = false;
		struct json_node at = json_read_get(group, key);
		for (size_t i = 0; i < ARRAY_LEN(ways); i++)
			is_known |= ways[i].group && strcmp(ways[i].name, key) == 0;
		if (!is_default(&at) && !is_known)
			return json_read_fail(&at, fail, "is not supported");
	}
	return OK;
}

/* The cache's key: the way and the value's text. Equal keys mean equal grammars. */
static char *key_of(const struct guide_key *way, const struct json_node *at)
{
	struct buf key = {0};
	buf_addf(&key, "%s.%s ", way->group ? way->group : "", way->name);
	json_digits_write(at->v, false, &key);
	return buf_take(&key);
}

static enum status read_way(const struct guide_key *way, const struct json_node *at,
			    struct grammarcache *cache, struct grammar **out,
			    struct fail *fail)
{
	char *key = key_of(way, at);
	enum status st = OK;
	*out = grammarcache_get(cache, str_of(key));
	if (!*out) {
		st = way->read(at, out, fail);
		if (st == OK && *out)
			grammarcache_put(cache, str_of(key), *out);
	}
	free(key);
	return st;
}

enum status guide_read(const struct json_node *body, struct grammarcache *cache,
		       struct grammar **out, struct fail *fail)
{
	struct grammar *found = NULL;
	struct json_node outer = json_read_get(body, "structured_outputs");
	enum status st = check_group(&outer, fail);
	for (size_t i = 0; i < ARRAY_LEN(ways) && st == OK; i++) {
		struct json_node at =
			json_read_get(ways[i].group ? &outer : body, ways[i].name);
		struct grammar *g = NULL;
		if (!asks(&ways[i], &at))
			continue;
		st = read_way(&ways[i], &at, cache, &g, fail);
		if (st == OK && g && found) {
			grammar_unref(g);
			st = json_read_fail(&at, fail, "is a second way to say what the "
					    "answer must look like: only one can be held "
					    "to");
		} else if (g) {
			found = g;
		}
	}
	if (st == OK)
		*out = found;
	else
		grammar_unref(found);
	return st;
}
