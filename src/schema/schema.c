/* SPDX-License-Identifier: Apache-2.0
 *
 * From schema to list of schemas to rule (schema_private.h).
 *
 *   schema_add    $ref and allOf are followed into the list
 *   read_branches the first anyOf or oneOf of the list becomes alternatives: the list
 *                 once more for each branch, with the branch in it
 *   read_list     otherwise types, enum and const, and the keywords of each type
 *
 * Rules are made by a queue of jobs, not by recursion, so neither a long chain
 * of references nor a cycle costs stack.
 */
#include "schema/schema_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Steps of some ten nanoseconds: products of anyOfs, or of enums, must not grow without
 * end. A schema of 100 KB takes a hundredth of them. */
#define MAX_WORK 20000000
#define ITEM_WORK 40 /* with its memory: at most 500,000 of them */
#define JOB_WORK 400
#define MAX_REFS 200   /* references one behind the other, to one place */
#define MAX_LIST 2000

/* --- faults and nodes ---------------------------------------------------- */

void schema_check(struct schema_reader *x, enum status st)
{
	if (x->st == OK)
		x->st = st;
}

void schema_refuse(struct schema_reader *x, const struct json_node *at,
		   const char *fmt, ...)
{
	char text[240];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (x->st == OK)
		x->st = json_read_fail(at, x->fail, "%s", text);
}

static void work(struct schema_reader *x, size_t n)
{
	x->n_work += n;
	if (x->n_work > MAX_WORK && x->st == OK)
		x->st = fail_set(x->fail, E_LIMIT,
				 "the schema has too many combinations");
}

static const struct json_node *keep(struct schema_reader *x, struct json_node n)
{
	struct json_node *copy = arena_alloc(&x->arena, sizeof *copy);
	*copy = n;
	return copy;
}

const struct json_node *schema_get(struct schema_reader *x,
				   const struct json_node *up, const char *key)
{
	return keep(x, json_read_get(up, key));
}

const struct json_node *schema_item(struct schema_reader *x,
				    const struct json_node *up, size_t i)
{
	return keep(x, json_read_item(up, i));
}

bool schema_rule(struct schema_reader *x, const char *name, uint32_t *out)
{
	struct str key = str_of(name);
	if (strmap_get(&x->rules, key, out))
		return false;
	*out = grammar_build_rule(x->b, key);
	strmap_put(&x->rules, arena_str(&x->arena, key), *out);
	return true;
}

static void read_bound(struct schema_reader *x, const struct schema_list *l,
		       const char *key, bool is_max, int64_t *out)
{
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		struct json_node at = json_read_get(l->p[i].at, key);
		int64_t v = *out;
		schema_check(x, json_read_int(&at, 0, INT64_MAX, &v, x->fail));
		if (at.v)
			*out = is_max ? MIN(*out, v) : MAX(*out, v);
	}
}

void schema_read_max(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out)
{
	read_bound(x, l, key, true, out);
}

void schema_read_min(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out)
{
	read_bound(x, l, key, false, out);
}

/* --- keywords ------------------------------------------------------------ */

enum keyword_use {
	USE_NOTE,    /* says nothing about what is valid */
	USE_SHAPE,   /* $ref, allOf, anyOf, oneOf, type, enum, const */
	USE_STRING, USE_NUMBER, USE_ARRAY, USE_OBJECT,
	USE_IF_FALSE, /* supported where it is false, which asks for nothing */
};

static const struct keyword {
	const char *name;
	enum keyword_use use;
} keywords[] = {
	{"type", USE_SHAPE}, {"enum", USE_SHAPE}, {"const", USE_SHAPE},
	{"$ref", USE_SHAPE}, {"allOf", USE_SHAPE}, {"anyOf", USE_SHAPE},
	{"oneOf", USE_SHAPE}, {"nullable", USE_SHAPE},
	{"minLength", USE_STRING}, {"maxLength", USE_STRING},
	{"pattern", USE_STRING}, {"format", USE_NOTE /* by type, see below */},
	{"minimum", USE_NUMBER}, {"maximum", USE_NUMBER},
	{"exclusiveMinimum", USE_NUMBER}, {"exclusiveMaximum", USE_NUMBER},
	{"items", USE_ARRAY}, {"prefixItems", USE_ARRAY},
	{"minItems", USE_ARRAY}, {"maxItems", USE_ARRAY},
	{"properties", USE_OBJECT}, {"required", USE_OBJECT},
	{"additionalProperties", USE_OBJECT}, {"minProperties", USE_OBJECT},
	{"maxProperties", USE_OBJECT},
	{"uniqueItems", USE_IF_FALSE}, {"unevaluatedProperties", USE_OBJECT},
	{"$defs", USE_NOTE}, {"definitions", USE_NOTE}, {"$schema", USE_NOTE},
	{"$comment", USE_NOTE}, {"title", USE_NOTE}, {"description", USE_NOTE},
	{"default", USE_NOTE}, {"example", USE_NOTE}, {"examples", USE_NOTE},
	{"deprecated", USE_NOTE}, {"readOnly", USE_NOTE}, {"writeOnly", USE_NOTE},
	{"discriminator", USE_NOTE}, {"externalDocs", USE_NOTE},
	{"contentMediaType", USE_NOTE}, {"contentEncoding", USE_NOTE},
};

static const struct keyword *find_keyword(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
		if (strcmp(keywords[i].name, name) == 0)
			return &keywords[i];
	return NULL;
}

static void check_keywords(struct schema_reader *x, const struct json_node *at)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)at->v, key, v) {
		const struct keyword *k = find_keyword(key);
		bool is_root_id = strcmp(key, "$id") == 0 && at->v == x->root.v;
		bool is_note = is_root_id || strncmp(key, "x-", 2) == 0;
		if (is_note || (k && (k->use != USE_IF_FALSE || json_is_false(v) ||
				      json_is_null(v))))
			continue;
		schema_refuse(x, at, "uses \"%.60s\", which is not supported", key);
		return;
	}
}

/* --- references ---------------------------------------------------------- */

/* One step of a JSON pointer, with ~0, ~1 and %XX undone. */
static char *read_step(struct schema_reader *x, const char *p, size_t n)
{
	char *out = arena_alloc(&x->arena, n + 1);
	size_t k = 0;
	for (size_t i = 0; i < n; i++) {
		char c = p[i], hex[3] = {0};
		if (c == '%' && i + 2 < n && strspn(p + i + 1,
		    "0123456789abcdefABCDEF") >= 2) {
			memcpy(hex, p + i + 1, 2);
			c = (char)strtol(hex, NULL, 16);
			i += 2;
		}
		out[k++] = c;
	}
	size_t kept = 0;
	for (size_t i = 0; i < k; i++) {
		bool is_escape = out[i] == '~' && i + 1 < k &&
				 (out[i + 1] == '0' || out[i + 1] == '1');
		out[kept++] = !is_escape ? out[i] : out[i + 1] == '0' ? '~' : '/';
		i += is_escape;
	}
	out[kept] = '\0';
	return out;
}

static const struct json_node *resolve(struct schema_reader *x,
				       const struct json_node *ref)
{
	struct str s = STR("");
	schema_check(x, json_read_need_str(ref, &s, x->fail));
	if (x->st != OK)
		return NULL;
	const struct json_node *at = &x->root;
	if (!str_starts(s, STR("#")) || (s.n > 1 && s.p[1] != '/')) {
		schema_refuse(x, ref, "must be \"#\" or begin with \"#/\": others "
			      "are not supported");
		return NULL;
	}
	for (size_t i = 2; i < s.n + 1 && s.n > 1; i++) {
		size_t n = 0;
		while (i + n < s.n && s.p[i + n] != '/')
			n++;
		char *step = read_step(x, s.p + i, n);
		if (json_is_array(at->v))
			at = strspn(step, "0123456789") == strlen(step)
				     ? schema_item(x, at, strtoul(step, NULL, 10))
				     : keep(x, (struct json_node){0});
		else
			at = schema_get(x, at, step);
		i += n;
	}
	if (!at->v) {
		schema_refuse(x, ref, "refers to \"%.*s\", which is not there",
			      (int)MIN(s.n, 100), s.p);
		return NULL;
	}
	return at;
}

/* --- lists --------------------------------------------------------------- */

static void add_item(struct schema_reader *x, struct schema_list *to,
		     struct schema_item item)
{
	if (to->n == MAX_LIST) {
		schema_refuse(x, item.at, "is one of too many schemas that must all "
			      "hold at one place");
		return;
	}
	work(x, ITEM_WORK + to->n / 8); /* it has been compared with each */
	if (to->n == to->cap) {
		struct schema_item *old = to->p;
		to->cap = to->cap ? 2 * to->cap : 4;
		to->p = arena_alloc(&x->arena, to->cap * sizeof *to->p);
		if (to->n)
			memcpy(to->p, old, to->n * sizeof *old);
	}
	to->p[to->n++] = item;
}

static void add_at_depth(struct schema_reader *x, struct schema_list *to,
			 const struct json_node *at, int depth)
{
	if (x->st != OK || json_is_true(at->v))
		return;
	if (json_is_false(at->v)) {
		to->is_never = true;
		return;
	}
	if (!json_is_object(at->v)) {
		schema_refuse(x, at, "must be a schema: an object or a boolean");
		return;
	}
	if (depth > MAX_REFS) {
		schema_refuse(x, at, "refers to itself, or by too many steps");
		return;
	}
	check_keywords(x, at);
	const struct json_node *ref = schema_get(x, at, "$ref");
	const struct json_node *all = schema_get(x, at, "allOf");
	for (size_t i = 0; i < to->n; i++) {
		if (to->p[i].at->v != at->v || ref->v || all->v)
			continue;
		/* A branch of anyOf that leads back to it adds nothing to it. */
		to->is_never |= to->p[i].any_done || to->p[i].one_done;
		return;
	}
	add_item(x, to, (struct schema_item){.at = at});
	if (x->st == OK && ref->v) {
		const struct json_node *target = resolve(x, ref);
		if (target)
			add_at_depth(x, to, target, depth + 1);
	}
	size_t n = 0;
	schema_check(x, json_read_list(all, MAX_LIST, &n, x->fail));
	for (size_t i = 0; i < n && x->st == OK; i++)
		add_at_depth(x, to, schema_item(x, all, i), depth + 1);
}

void schema_add(struct schema_reader *x, struct schema_list *to,
		const struct json_node *at)
{
	add_at_depth(x, to, at, 0);
}

static struct str key_of(struct schema_reader *x, const struct schema_list *l)
{
	struct buf key = {0};
	for (size_t i = 0; i < l->n; i++) {
		const struct schema_item *it = &l->p[i];
		char flags = (char)('0' + it->any_done + 2 * it->one_done);
		buf_add(&key, &it->at->v, sizeof it->at->v);
		buf_add_c(&key, flags);
	}
	struct str out = arena_str(&x->arena, buf_str(&key));
	buf_deinit(&key);
	return out;
}

grammar_part schema_part(struct schema_reader *x, struct schema_list *list)
{
	if (list->is_never || x->st != OK)
		return grammar_build_alt(x->b, NULL, 0);
	struct str key = key_of(x, list);
	uint32_t rule;
	if (!strmap_get(&x->rules, key, &rule)) {
		struct fail path = {0}; /* spelled as it would be in an error */
		if (list->n)
			json_read_fail(list->p[0].at, &path, "x");
		rule = grammar_build_rule(
			x->b, str_of(list->n ? path.param : "any value"));
		strmap_put(&x->rules, key, rule);
		struct schema_job *job = arena_alloc(&x->arena, sizeof *job);
		*job = (struct schema_job){.rule = rule, .list = *list};
		*x->last_job = job;
		x->last_job = &job->next;
		work(x, JOB_WORK);
	}
	return grammar_build_ref(x->b, rule);
}

/* --- enum and const ------------------------------------------------------ */

static void write_json(const json_t *v, struct buf *out)
{
	const char *key;
	json_t *item;
	bool is_first = true;
	if (json_is_object(v)) {
		buf_add_c(out, '{');
		json_object_foreach((json_t *)v, key, item) {
			buf_add_z(out, is_first ? "" : ", ");
			buf_add_json(out, str_of(key));
			buf_add_z(out, ": ");
			write_json(item, out);
			is_first = false;
		}
		buf_add_c(out, '}');
	} else if (json_is_array(v)) {
		buf_add_c(out, '[');
		for (size_t i = 0; i < json_array_size(v); i++) {
			buf_add_z(out, i ? ", " : "");
			write_json(json_array_get(v, i), out);
		}
		buf_add_c(out, ']');
	} else if (json_is_string(v)) {
		buf_add_json(out, json_read_view(v));
	} else if (json_is_integer(v)) {
		buf_addf(out, "%lld", (long long)json_integer_value(v));
	} else if (json_is_real(v)) {
		buf_add_json_num(out, json_real_value(v));
	} else {
		buf_add_z(out, json_is_null(v) ? "null"
			       : json_is_true(v) ? "true" : "false");
	}
}

static int type_of(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT: return TYPE_OBJECT;
	case JSON_ARRAY: return TYPE_ARRAY;
	case JSON_STRING: return TYPE_STRING;
	case JSON_INTEGER: return TYPE_INTEGER;
	case JSON_REAL: return TYPE_FRACTION;
	case JSON_TRUE: case JSON_FALSE: return TYPE_BOOL;
	case JSON_NULL: return TYPE_NULL;
	}
	return 0;
}

/* Does every enum and const of the list allow v? */
static bool is_allowed(struct schema_reader *x, const struct schema_list *l,
		       const json_t *v)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *c = json_object_get(l->p[i].at->v, "const");
		const json_t *e = json_object_get(l->p[i].at->v, "enum");
		bool is_in = !e;
		work(x, 1 + json_array_size(e));
		for (size_t k = 0; e && k < json_array_size(e) && !is_in; k++)
			is_in = json_equal(json_array_get(e, k), v);
		if (!is_in || (c && !json_equal(c, v)))
			return false;
	}
	return true;
}

/* Values are written, not checked against keywords: those that ask for more than a
 * type have no place beside them. */
static void check_beside_enum(struct schema_reader *x, const struct schema_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *key;
		json_t *v;
		json_object_foreach((json_t *)l->p[i].at->v, key, v) {
			const struct keyword *k = find_keyword(key);
			if (k && (k->use >= USE_STRING || strcmp(key, "format") == 0))
				schema_refuse(x, l->p[i].at, "uses \"%s\" beside "
					      "\"enum\" or \"const\", which is not "
					      "supported", key);
		}
	}
}

/* The values of the first enum or const of the list, as far as all agree and they are
 * of these types. False: there is none. */
static bool read_values(struct schema_reader *x, const struct schema_list *l,
			int types, const json_t ***out, size_t *out_n)
{
	const json_t *values = NULL, *one = NULL;
	for (size_t i = 0; i < l->n && !values && !one; i++) {
		const struct json_node *at = l->p[i].at;
		one = json_object_get(at->v, "const");
		values = json_object_get(at->v, "enum");
		if (values && !json_is_array(values))
			schema_refuse(x, schema_get(x, at, "enum"), "must be a list");
	}
	if (!values && !one)
		return false;
	check_beside_enum(x, l);
	size_t n = one ? 1 : json_array_size(values);
	*out = arena_alloc(&x->arena, (n + 1) * sizeof **out);
	*out_n = 0;
	for (size_t i = 0; i < n && x->st == OK; i++) {
		const json_t *v = one ? one : json_array_get(values, i);
		if ((type_of(v) & types) && is_allowed(x, l, v))
			(*out)[(*out_n)++] = v;
	}
	return true;
}

static bool values_part(struct schema_reader *x, const struct schema_list *l, int types,
			grammar_part *out)
{
	const json_t **values;
	size_t n;
	struct buf text = {0};
	if (!read_values(x, l, types, &values, &n))
		return false;
	struct str *texts = xcalloc(n + 1, sizeof *texts);
	for (size_t i = 0; i < n; i++) {
		buf_clear(&text);
		write_json(values[i], &text);
		texts[i] = arena_str(&x->arena, buf_str(&text));
	}
	*out = grammar_build_choice(x->b, texts, n);
	free(texts);
	buf_deinit(&text);
	return true;
}

bool schema_texts(struct schema_reader *x, const struct schema_list *l,
		  struct str **out, size_t *out_n)
{
	const json_t **values;
	if (!read_values(x, l, TYPE_STRING, &values, out_n))
		return false;
	*out = arena_alloc(&x->arena, (*out_n + 1) * sizeof **out);
	for (size_t i = 0; i < *out_n; i++)
		(*out)[i] = json_read_view(values[i]);
	return true;
}

/* --- types --------------------------------------------------------------- */

static int type_named(struct schema_reader *x, const struct json_node *at)
{
	static const struct {
		const char *name;
		int type;
	} names[] = {{"null", TYPE_NULL}, {"boolean", TYPE_BOOL},
		     {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER},
		     {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
		     {"object", TYPE_OBJECT}};
	struct str s = STR("");
	schema_check(x, json_read_need_str(at, &s, x->fail));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_is(s, names[i].name))
			return names[i].type;
	schema_refuse(x, at, "must be the name of a JSON type");
	return 0;
}

static int read_type(struct schema_reader *x, const struct json_node *schema)
{
	const struct json_node *at = schema_get(x, schema, "type");
	if (!at->v)
		return TYPE_ALL;
	int types = 0;
	size_t n = 0;
	if (!json_is_array(at->v))
		types = type_named(x, at);
	else
		schema_check(x, json_read_list(at, 16, &n, x->fail));
	for (size_t i = 0; i < n && x->st == OK; i++)
		types |= type_named(x, schema_item(x, at, i));
	struct json_node nullable = json_read_get(schema, "nullable");
	bool is_nullable = false;
	schema_check(x, json_read_bool(&nullable, &is_nullable, x->fail));
	return types | (is_nullable ? TYPE_NULL : 0);
}

/* Without a type, keywords speak of the types they are for, and those are meant. */
static int implied_types(const struct schema_list *l)
{
	int types = 0;
	for (size_t i = 0; i < l->n; i++) {
		const char *key;
		json_t *v;
		json_object_foreach((json_t *)l->p[i].at->v, key, v) {
			const struct keyword *k = find_keyword(key);
			enum keyword_use use = k ? k->use : USE_NOTE;
			types |= use == USE_STRING ? TYPE_STRING
				 : use == USE_NUMBER ? TYPE_NUMBER
				 : use == USE_ARRAY ? TYPE_ARRAY
				 : use == USE_OBJECT ? TYPE_OBJECT : 0;
			if (strcmp(key, "format") == 0)
				types |= TYPE_STRING;
		}
	}
	return types ? types : TYPE_ALL;
}

int schema_types(struct schema_reader *x, const struct schema_list *l)
{
	int types = TYPE_ALL;
	bool is_said = false;
	for (size_t i = 0; i < l->n; i++) {
		types &= read_type(x, l->p[i].at);
		is_said |= json_object_get(l->p[i].at->v, "type") ||
			   json_object_get(l->p[i].at->v, "enum") ||
			   json_object_get(l->p[i].at->v, "const");
	}
	return is_said ? types : types & implied_types(l);
}

static grammar_part read_list(struct schema_reader *x, const struct schema_list *l)
{
	struct grammar_parts alts = {0};
	grammar_part out;
	int types = schema_types(x, l);
	if (x->st != OK || values_part(x, l, types, &out))
		return x->st == OK ? out : 0;
	if (types & TYPE_OBJECT)
		grammar_parts_add(&alts, schema_object(x, l));
	if (types & TYPE_ARRAY)
		grammar_parts_add(&alts, schema_array(x, l));
	if (types & TYPE_STRING)
		grammar_parts_add(&alts, schema_string(x, l));
	if (types & TYPE_FRACTION)
		grammar_parts_add(&alts, schema_number(x, l));
	else if (types & TYPE_INTEGER)
		grammar_parts_add(&alts, schema_integer(x, l));
	if (types & TYPE_BOOL) {
		grammar_parts_add(&alts, grammar_build_lit(x->b, STR("true")));
		grammar_parts_add(&alts, grammar_build_lit(x->b, STR("false")));
	}
	if (types & TYPE_NULL)
		grammar_parts_add(&alts, grammar_build_lit(x->b, STR("null")));
	out = x->st == OK ? grammar_build_alt(x->b, alts.p, alts.n) : 0;
	free(alts.p);
	return out;
}

/* --- anyOf and oneOf ----------------------------------------------------- */

/* Types that a branch by itself allows, for the proof that no two of oneOf match the
 * same value. */
static int branch_types(struct schema_reader *x, const struct schema_list *l)
{
	int types = TYPE_ALL;
	for (size_t i = 0; i < l->n; i++)
		types &= read_type(x, l->p[i].at);
	return types;
}

/* The const, or the enum, of a schema, as an array to be freed; NULL: none. */
static json_t *values_of(const json_t *v)
{
	json_t *one = json_object_get(v, "const"), *many = json_object_get(v, "enum");
	if (one)
		return json_pack("[O]", one);
	return json_is_array(many) ? json_incref(many) : NULL;
}

static bool are_apart(struct schema_reader *x, const json_t *a, const json_t *b)
{
	json_t *of_a = values_of(a), *of_b = values_of(b);
	size_t n = json_array_size(of_a), m = json_array_size(of_b);
	work(x, n * m);
	bool are = of_a && of_b && x->st == OK;
	for (size_t i = 0; are && i < n; i++)
		for (size_t k = 0; are && k < m; k++)
			are = !json_equal(json_array_get(of_a, i),
					  json_array_get(of_b, k));
	json_decref(of_a);
	json_decref(of_b);
	return are;
}

static bool requires(const json_t *v, const char *name)
{
	const json_t *r = json_object_get(v, "required");
	for (size_t i = 0; i < json_array_size(r); i++) {
		const char *s = json_string_value(json_array_get(r, i));
		if (s && strcmp(s, name) == 0)
			return true;
	}
	return false;
}

/* A property that both require and for which they have no value in common. */
static bool have_tag(struct schema_reader *x, const json_t *a, const json_t *b)
{
	const char *key;
	json_t *v;
	size_t n_required = json_array_size(json_object_get(a, "required")) +
			    json_array_size(json_object_get(b, "required"));
	work(x, 10 + json_object_size(json_object_get(a, "properties")) *
			     (n_required + 10));
	const json_t *others = json_object_get(b, "properties");
	json_object_foreach(json_object_get(a, "properties"), key, v)
		if (requires(a, key) && requires(b, key) &&
		    are_apart(x, v, json_object_get(others, key)))
			return true;
	return false;
}

static bool are_disjoint(struct schema_reader *x, const struct schema_list *a,
			 const struct schema_list *b)
{
	if (a->is_never || b->is_never ||
	    !(branch_types(x, a) & branch_types(x, b)))
		return true;
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n && x->st == OK; k++)
			if (are_apart(x, a->p[i].at->v, b->p[k].at->v) ||
			    have_tag(x, a->p[i].at->v, b->p[k].at->v))
				return true;
	return false;
}

static void check_one_of(struct schema_reader *x, const struct json_node *of,
			 const struct schema_list *branches, size_t n)
{
	for (size_t i = 0; i < n && x->st == OK; i++)
		for (size_t k = i + 1; k < n && x->st == OK; k++)
			if (!are_disjoint(x, &branches[i], &branches[k]))
				schema_refuse(x, of, "may match by %zu and %zu at "
					      "once, which is not supported: use "
					      "\"anyOf\", or give each type or a "
					      "required const of its own", i, k);
}

/* The list without its i-th anyOf (oneOf), once for each branch. */
static grammar_part read_branches(struct schema_reader *x,
				  const struct schema_list *l, size_t i, bool is_one)
{
	const struct json_node *of =
		schema_get(x, l->p[i].at, is_one ? "oneOf" : "anyOf");
	size_t n = 0;
	schema_check(x, json_read_list(of, MAX_LIST, &n, x->fail));
	if (x->st == OK && n == 0)
		schema_refuse(x, of, "must have at least one schema");
	struct schema_list *own =
		arena_alloc(&x->arena, (n + 1) * sizeof *own);
	for (size_t k = 0; k < n && is_one; k++)
		schema_add(x, &own[k], schema_item(x, of, k));
	if (is_one)
		check_one_of(x, of, own, MIN(n, (size_t)200));
	if (is_one && n > 200)
		schema_refuse(x, of, "has more than 200 schemas");
	struct grammar_parts alts = {0};
	for (size_t k = 0; k < n && x->st == OK; k++) {
		struct schema_list sub = {.is_never = l->is_never};
		for (size_t j = 0; j < l->n; j++) {
			struct schema_item item = l->p[j];
			item.any_done |= j == i && !is_one;
			item.one_done |= j == i && is_one;
			add_item(x, &sub, item);
		}
		schema_add(x, &sub, schema_item(x, of, k));
		grammar_parts_add(&alts, schema_part(x, &sub));
	}
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

static grammar_part read_job(struct schema_reader *x, const struct schema_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *v = l->p[i].at->v;
		if (!l->p[i].any_done && json_object_get(v, "anyOf"))
			return read_branches(x, l, i, false);
		if (!l->p[i].one_done && json_object_get(v, "oneOf"))
			return read_branches(x, l, i, true);
	}
	return read_list(x, l);
}

/* --- the whole ----------------------------------------------------------- */

static void reader_init(struct schema_reader *x, struct grammar_build *b,
			const struct json_node *root, struct fail *fail)
{
	static const char *const marks[] = {",", ":"};
	grammar_part with_space[2];
	*x = (struct schema_reader){.b = b, .root = *root, .fail = fail};
	x->last_job = &x->jobs;
	arena_init(&x->arena);
	strmap_init(&x->rules, 64);
	for (int i = 0; i < 2; i++) {
		grammar_part seq[2] = {
			grammar_build_lit(x->b, str_of(marks[i])),
			grammar_build_opt(x->b, grammar_build_lit(x->b, STR(" ")))};
		with_space[i] = grammar_build_seq(x->b, seq, 2);
	}
	x->comma = with_space[0];
	x->colon = with_space[1];
}

/* Read all that is referred to. */
static enum status reader_end(struct schema_reader *x)
{
	for (; x->jobs && x->st == OK; x->jobs = x->jobs->next) {
		grammar_part part = read_job(x, &x->jobs->list);
		grammar_build_set_rule(x->b, x->jobs->rule, part);
	}
	strmap_deinit(&x->rules);
	arena_deinit(&x->arena);
	return x->st;
}

/* The part that fn makes of the root's list. */
typedef grammar_part (*make_fn)(struct schema_reader *x, struct schema_list *l,
				const void *ctx);

static enum status build(struct grammar_build *b, const struct json_node *at,
			 bool is_object, make_fn make, const void *ctx, size_t *io_work,
			 grammar_part *out, struct fail *fail)
{
	struct schema_reader x;
	struct schema_list list = {0};
	json_t *object = json_pack("{ss}", "type", "object");
	const struct json_node is = {.v = object};
	reader_init(&x, b, at->v ? at : &is, fail);
	x.n_work = *io_work;
	schema_add(&x, &list, &x.root);
	if (is_object && at->v)
		schema_add(&x, &list, &is);
	grammar_part part = x.st == OK ? make(&x, &list, ctx) : 0;
	enum status st = reader_end(&x);
	*io_work = x.n_work;
	if (st == OK)
		*out = part;
	json_decref(object);
	return st;
}

static grammar_part make_json(struct schema_reader *x, struct schema_list *l,
			      const void *ctx)
{
	return schema_part(x, l);
}

static grammar_part make_tagged(struct schema_reader *x, struct schema_list *l,
				const void *ctx)
{
	return schema_tagged(x, l, ctx);
}

enum status schema_build(struct grammar_build *b, const struct json_node *at,
			 bool is_object, size_t *io_work, grammar_part *out,
			 struct fail *fail)
{
	return build(b, at, is_object, make_json, NULL, io_work, out, fail);
}

enum status schema_build_tagged(struct grammar_build *b, const struct json_node *at,
				const struct schema_tags *tags, size_t *io_work,
				grammar_part *out, struct fail *fail)
{
	return build(b, at, true, make_tagged, tags, io_work, out, fail);
}

enum status schema_grammar(const struct json_node *at, struct grammar **out,
			   struct fail *fail)
{
	struct grammar_build *b = grammar_build_create();
	uint32_t root = grammar_build_rule(b, STR("schema"));
	grammar_part part;
	size_t work = 0;
	enum status st = schema_build(b, at, false, &work, &part, fail);
	if (st == OK) {
		grammar_build_set_rule(b, root, part);
		st = grammar_build_finish(b, root, out, fail);
	}
	if (st == E_INVAL && fail && strncmp(fail->text, "nothing", 7) == 0)
		json_read_fail(at, fail, "allows no value that could be written");
	grammar_build_destroy(b);
	return st;
}

enum status schema_grammar_object(struct grammar **out, struct fail *fail)
{
	const struct json_node any = {0};
	return schema_grammar(&any, out, fail);
}
