/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of a schema. Properties are written in the schema's order. The grammar
 * therefore only has to know the next property i and the number c of properties written
 * so far. There is one rule per pair (i, c), shared by all ways to get there.
 */
#include <stdio.h>
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

/* --- names --------------------------------------------------------------- */

struct property {
	const char *name;
	bool is_required;
	grammar_part part; /* the text `"name":` and the value */
};

struct object {
	struct property *p;
	size_t n, cap;
	struct strmap index; /* property name to index in p */
	size_t n_required;
	bool is_open;        /* additional properties may be written */
	grammar_part additional;
	grammar_part groups[SCHEMA_GROUPS]; /* the same, divided by their names */
	size_t n_groups;
	int64_t min, max;    /* bounds of the number of properties, additional ones included */
};

static size_t add_name(struct object *o, const char *name)
{
	uint32_t i;
	if (strmap_get(&o->index, str_of(name), &i))
		return i;
	if (o->n == o->cap) {
		o->cap = o->cap ? 2 * o->cap : 16;
		o->p = xrealloc(o->p, o->cap * sizeof *o->p);
	}
	o->p[o->n] = (struct property){.name = name};
	strmap_put(&o->index, str_of(name), (uint32_t)o->n);
	return o->n++;
}

static void read_required(struct schema_reader *x, const struct json_node *at,
			  struct object *o)
{
	size_t n = 0;
	if (json_is_boolean(at->v))
		return; /* draft 3: a boolean in each property instead of a list */
	schema_check(x, json_read_list(at, 100000, &n, x->fail));
	for (size_t k = 0; k < n && x->st == OK; k++) {
		struct str s = STR("");
		schema_check(x, json_read_need_str(schema_item(x, at, k), &s, x->fail));
		if (x->st != OK)
			break;
		size_t at_name = add_name(o, arena_strdup(&x->arena, s.p));
		struct property *p = &o->p[at_name];
		o->n_required += !p->is_required;
		p->is_required = true;
	}
}

/* If propertyNames enumerates strings, these names count as properties. */
static void read_name_values(struct schema_reader *x, const struct json_node *at,
			     struct object *o)
{
	const json_t *values = json_object_get(at->v, "enum");
	const struct json_node *ref = schema_get(x, at, "$ref");
	if (!values && ref->v && (ref = schema_resolve(x, ref)))
		values = json_object_get(ref->v, "enum");
	for (size_t i = 0; i < json_array_size(values); i++) {
		const char *name = json_string_value(json_array_get(values, i));
		if (name)
			add_name(o, name);
	}
}

/* Collects names in the order of the schemas. Required names without a schema come last. */
static void read_names(struct schema_reader *x, const struct schema_list *l,
		       struct object *o)
{
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *at = schema_get(x, l->p[i].at, "properties");
		const char *key;
		json_t *v;
		schema_check(x, json_read_object(at, x->fail));
		if (x->st == OK && at->v)
			json_object_foreach((json_t *)at->v, key, v)
				add_name(o, key);
	}
	for (size_t i = 0; i < l->n && x->st == OK; i++)
		read_required(x, schema_get(x, l->p[i].at, "required"), o);
	for (size_t i = 0; i < l->n && x->st == OK; i++)
		read_name_values(x, schema_get(x, l->p[i].at, "propertyNames"), o);
}

/* --- values ------------------------------------------------------------------ */

/* Adds the schemas of the patterns that match `name`. True: a pattern matches. */
static bool add_for_patterns(struct schema_reader *x, const struct schema_item *of,
			     const char *name, struct schema_list *out)
{
	const struct json_node *patterns = schema_get(x, of->at, "patternProperties");
	bool is_matched = false;
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)patterns->v, key, v) {
		json_t *text = json_string(key);
		const struct json_node at = {.v = text, .up = patterns, .key = key};
		lang l = LANG_NONE;
		bool matches = schema_pattern(x, &at, &l) &&
			       lang_matches(x->langs, l, str_of(name));
		json_decref(text);
		if (matches && out)
			schema_add(x, out, schema_get(x, patterns, key));
		is_matched |= matches;
	}
	return is_matched;
}

/* True if an item below `above` evaluates the name, in the sense of
 * unevaluatedProperties. */
static bool is_evaluated(struct schema_reader *x, const struct schema_list *l, size_t above,
			 const char *name)
{
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const json_t *v = l->p[i].at->v;
		if (l->p[i].is_silent || !schema_is_below(l, i, above))
			continue;
		if (json_object_get(json_object_get(v, "properties"), name) ||
		    json_object_get(v, "additionalProperties") ||
		    (i != above && json_object_get(v, "unevaluatedProperties")) ||
		    add_for_patterns(x, &l->p[i], name, NULL))
			return true;
	}
	return false;
}

/* Adds the schemas of the value of property `name`. */
static void add_for_name(struct schema_reader *x, const struct schema_list *l,
			 const char *name, struct schema_list *out)
{
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *at = l->p[i].at;
		const struct json_node *props = schema_get(x, at, "properties");
		const struct json_node *other = schema_get(x, at, "additionalProperties");
		const struct json_node *rest = schema_get(x, at, "unevaluatedProperties");
		const struct json_node *names = schema_get(x, at, "propertyNames");
		bool is_own = json_object_get(props->v, name) != NULL;
		if (is_own)
			schema_add(x, out, schema_get(x, props, name));
		is_own |= add_for_patterns(x, &l->p[i], name, out);
		if (!is_own && other->v)
			schema_add(x, out, other);
		if (rest->v && !is_evaluated(x, l, i, name))
			schema_add(x, out, rest);
		if (names->v && x->st == OK &&
		    !lang_matches(x->langs, schema_names(x, names), str_of(name)))
			out->is_never = true;
	}
}

/* Makes the part `"name": value` of each property. */
static void read_properties(struct schema_reader *x, const struct schema_list *l,
			    struct object *o)
{
	struct buf text = {0};
	for (size_t i = 0; i < o->n && x->st == OK; i++) {
		struct schema_list value = {0};
		add_for_name(x, l, o->p[i].name, &value);
		buf_clear(&text);
		struct str name = str_of(o->p[i].name);
		if (!x->relaxed)
			buf_add_json(&text, name);
		else if (!schema_relaxed_add_key(x->relaxed, name, &text))
			schema_refuse(x, l->p[0].at, "has a property whose name holds %s, "
				      "which this model's calls cannot have",
				      x->relaxed->text);
		grammar_part key = grammar_build_lit(x->b, buf_str(&text));
		o->p[i].part = seq(x, key, x->colon, schema_part(x, &value));
	}
	buf_deinit(&text);
}

/* --- additional properties -------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool says_something(const json_t *v)
{
	return v && !json_is_false(v) && !json_is_null(v);
}

/* True if additional properties may be written: a schema asks for them, or no schema
 * mentions properties. */
static bool is_open(const struct schema_list *l)
{
	bool says_names = false, is_said = false;
	for (size_t i = 0; i < l->n; i++) {
		const json_t *v = l->p[i].at->v;
		is_said |= says_something(json_object_get(v, "additionalProperties")) ||
			   says_something(json_object_get(v, "unevaluatedProperties")) ||
			   says_something(json_object_get(v, "propertyNames"));
		says_names |= !l->p[i].is_made &&
			      (json_object_get(v, "properties") ||
			       json_object_get(v, "patternProperties") ||
			       json_object_get(v, "required"));
	}
	return is_said || !says_names;
}

/* Makes the additional properties of each group of names. */
static void read_groups(struct schema_reader *x, const struct schema_list *l,
			const char *const *names, struct object *o)
{
	const char *patterns[SCHEMA_GROUPS];
	size_t n = schema_split_names(x, schema_additional_names(x, l, is_open(l)), patterns);
	for (size_t g = 0; g < n && x->st == OK; g++) {
		json_t *text = json_string(patterns[g]);
		const struct json_node at = {.v = text, .up = &x->root};
		lang among;
		if (schema_pattern(x, &at, &among) &&
		    schema_additional(x, l, names, o->n, is_open(l), among,
				   &o->groups[o->n_groups]))
			o->n_groups++;
		json_decref(text);
	}
}

static void read_additional(struct schema_reader *x, const struct schema_list *l,
			 struct object *o)
{
	const char **names = xmalloc((o->n + 1) * sizeof *names);
	for (size_t i = 0; i < o->n; i++)
		names[i] = o->p[i].name;
	qsort(names, o->n, sizeof *names, by_name);
	o->is_open = schema_additional(x, l, names, o->n, is_open(l), LANG_ANY, &o->additional);
	/* One additional name counts. For more, each must be of another group. */
	if (o->is_open && o->min > (int64_t)o->n_required + 1)
		read_groups(x, l, names, o);
	free(names);
}

/* --- members --------------------------------------------------------------------- */

#define MAX_STATES 200000

/* One rule for each pair (i, c): writes the properties from i on after c were written.
 * Counts that make no difference share a rule. */
struct members {
	struct schema_reader *x;
	const struct object *o;
	int64_t n_counted; /* counts 0..n_counted have rules of their own; higher ones share the
			    * last */
	uint32_t *rules;
};

static grammar_part member_part(struct members *m, grammar_part part, int64_t c)
{
	grammar_part pair[2] = {m->x->comma, part};
	return c > 0 ? grammar_build_seq(m->x->b, pair, 2) : part;
}

/* Additional properties of which `need` count, when c properties were written. Each that counts
 * is of another group of names, in the order of the groups; then come any. */
static grammar_part counted_part(struct members *m, int64_t c, int64_t need, grammar_part more)
{
	struct schema_reader *x = m->x;
	const struct object *o = m->o;
	int64_t n = (int64_t)o->n_groups;
	uint32_t rules[SCHEMA_GROUPS + 1][SCHEMA_GROUPS + 1];
	for (int64_t i = n; i >= 0; i--)
		for (int64_t k = 0; k <= need; k++) {
			grammar_part alts[2], pair[2];
			size_t n_alts = 0;
			rules[i][k] = grammar_build_rule(x->b, STR("properties that count"));
			if (k == need) {
				alts[n_alts++] = more;
			} else if (i < n) {
				pair[0] = member_part(m, o->groups[i], c + k);
				pair[1] = grammar_build_tail(x->b, rules[i + 1][k + 1]);
				alts[n_alts++] = grammar_build_seq(x->b, pair, 2);
				alts[n_alts++] = grammar_build_tail(x->b, rules[i + 1][k]);
			}
			grammar_build_set_rule(x->b, rules[i][k],
					       grammar_build_alt(x->b, alts, n_alts));
		}
	return grammar_build_ref(x->b, rules[0][0]);
}

/* The additional properties, after all named ones. An additional name may occur twice, so only
 * the first one counts towards the minimum, unless names are divided into groups. */
static grammar_part end_part(struct members *m, int64_t c)
{
	struct schema_reader *x = m->x;
	const struct object *o = m->o;
	bool is_counted = o->min > (int64_t)o->n_required;
	int64_t need = is_counted ? MAX(o->min - c, 0) : 0;
	int64_t room = o->max == GRAMMAR_NO_MAX ? GRAMMAR_NO_MAX : o->max - c;
	if (need == 0 && (!o->is_open || room <= 0))
		return lit(x, "");
	if (!o->is_open || room < need || (need > 1 && need > (int64_t)o->n_groups))
		return never(x);
	schema_work(x, need > 1 ? SCHEMA_GROUPS * 100 : 0);
	grammar_part more = grammar_build_repeat(
		x->b, member_part(m, o->additional, 1), 0,
		room == GRAMMAR_NO_MAX ? GRAMMAR_NO_MAX : rule_count(room - MAX(need, 1)));
	if (need > 1)
		return counted_part(m, c, need, more);
	grammar_part pair[2] = {member_part(m, o->additional, c), more};
	grammar_part some = grammar_build_seq(x->b, pair, 2);
	return need ? some : grammar_build_opt(x->b, some);
}

/* Refers to the rule of (i, c). Rules are made from the last property to the first,
 * without recursion. */
static grammar_part members_at(struct members *m, size_t i, int64_t c)
{
	size_t k = i * (size_t)(m->n_counted + 1) + (size_t)MIN(c, m->n_counted);
	return grammar_build_tail(m->x->b, m->rules[k]);
}

static void make_members(struct members *m, size_t i, int64_t c)
{
	struct schema_reader *x = m->x;
	const struct object *o = m->o;
	size_t k = i * (size_t)(m->n_counted + 1) + (size_t)c;
	grammar_part out;
	if (i == o->n) {
		out = end_part(m, c);
	} else {
		grammar_part alts[2];
		size_t n = 0;
		grammar_part with[2] = {member_part(m, o->p[i].part, c),
					members_at(m, i + 1, c + 1)};
		if (o->max == GRAMMAR_NO_MAX || c < o->max)
			alts[n++] = grammar_build_seq(x->b, with, 2);
		if (!o->p[i].is_required)
			alts[n++] = members_at(m, i + 1, c);
		out = grammar_build_alt(x->b, alts, n);
	}
	grammar_build_set_rule(x->b, m->rules[k], out);
}

/* All that may stand between the braces. */
static grammar_part members(struct schema_reader *x, const struct object *o)
{
	struct members m = {.x = x, .o = o};
	/* For the commas it is enough to know if a property was written. Higher counts
	 * matter only if the schema bounds their number. */
	int64_t n = (int64_t)o->n;
	m.n_counted = MAX(1, o->min > (int64_t)o->n_required ? MIN(o->min, n + 1) : 1);
	if (o->max < n || (o->is_open && o->max != GRAMMAR_NO_MAX))
		m.n_counted = MAX(m.n_counted, MIN(o->max, n) + 1);
	size_t n_rules = (o->n + 1) * (size_t)(m.n_counted + 1);
	if (n_rules > MAX_STATES) {
		schema_refuse(x, &x->root, "counts too many properties");
		return 0;
	}
	schema_work(x, n_rules * 20);
	m.rules = xmalloc(n_rules * sizeof *m.rules);
	for (size_t k = 0; k < n_rules; k++)
		m.rules[k] = grammar_build_rule(x->b, STR("properties"));
	for (size_t i = o->n + 1; i-- > 0;)
		for (int64_t c = 0; c <= m.n_counted; c++)
			make_members(&m, i, c);
	grammar_part out = grammar_build_ref(x->b, m.rules[0]);
	free(m.rules);
	return out;
}

/* --- objects ------------------------------------------------------------------------ */

/* Reads negated values and the bounds of the number of properties. False: no object can
 * be written. */
static bool leaves_objects(struct schema_reader *x, const struct schema_list *l,
			   struct object *o)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *not = json_object_get(l->p[i].at->v, SCHEMA_NOT_VALUES);
		for (size_t k = 0; k < json_array_size(not); k++) {
			const json_t *v = json_array_get(not, k);
			if (!json_is_object(v))
				continue;
			if (json_object_size(v))
				return false; /* the grammar cannot express "differs from this
					       * object" */
			o->min = MAX(o->min, 1);
		}
	}
	schema_read_min(x, l, "minProperties", &o->min);
	schema_read_max(x, l, "maxProperties", &o->max);
	return true;
}

void schema_each_name(struct schema_reader *x, const struct schema_list *l,
		      schema_property_fn fn, void *ctx)
{
	struct object o = {.max = GRAMMAR_NO_MAX};
	strmap_init(&o.index, 16);
	read_names(x, l, &o);
	for (size_t i = 0; i < o.n && x->st == OK; i++) {
		struct schema_list value = {0};
		add_for_name(x, l, o.p[i].name, &value);
		fn(ctx, o.p[i].name, o.p[i].is_required, &value);
	}
	strmap_deinit(&o.index);
	free(o.p);
}

void schema_each_property(struct schema_reader *x, const struct schema_list *l,
			  schema_property_fn fn, void *ctx)
{
	struct object o = {.max = GRAMMAR_NO_MAX};
	strmap_init(&o.index, 16);
	read_names(x, l, &o);
	if (x->st == OK && (!leaves_objects(x, l, &o) || o.min > (int64_t)o.n_required ||
			    o.max < (int64_t)o.n))
		schema_refuse(x, l->p[0].at, "counts properties, which is not supported "
			      "with this model's calls");
	strmap_deinit(&o.index);
	free(o.p);
	if (x->st == OK)
		schema_each_name(x, l, fn, ctx);
}

grammar_part schema_object(struct schema_reader *x, const struct schema_list *l)
{
	struct object o = {.max = GRAMMAR_NO_MAX};
	grammar_part out = never(x);
	strmap_init(&o.index, 16);
	read_names(x, l, &o);
	bool is_possible = x->st == OK && leaves_objects(x, l, &o);
	if (is_possible && x->st == OK)
		read_properties(x, l, &o);
	if (is_possible && x->st == OK)
		read_additional(x, l, &o);
	if (is_possible && x->st == OK)
		out = seq(x, lit(x, "{"), members(x, &o), lit(x, "}"));
	strmap_deinit(&o.index);
	free(o.p);
	return out;
}

/* --- keyword arguments ------------------------------------------------------------- */

static const struct grammar_range name_chars[] = {
	{'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {'0', '9'}};

static bool is_name(const char *s)
{
	bool is_good = *s && !(*s >= '0' && *s <= '9');
	for (; *s && is_good; s++) {
		is_good = false;
		for (size_t i = 0; i < ARRAY_LEN(name_chars); i++)
			is_good |= (uint8_t)*s >= name_chars[i].lo &&
				   (uint8_t)*s <= name_chars[i].hi;
	}
	return is_good;
}

/* Makes the part `name=value` of each property that Python can name. */
static void read_keywords(struct schema_reader *x, const struct schema_list *l,
			  struct object *o)
{
	size_t kept = 0;
	for (size_t i = 0; i < o->n && x->st == OK; i++) {
		struct property p = o->p[i];
		struct schema_list value = {0};
		if (!is_name(p.name)) {
			if (p.is_required)
				schema_refuse(x, l->p[0].at, "requires a property whose name "
					      "is none of Python's, which this model's calls "
					      "cannot have");
			continue;
		}
		add_for_name(x, l, p.name, &value);
		p.part = seq(x, lit(x, p.name), lit(x, "="), schema_part(x, &value));
		o->p[kept++] = p;
	}
	o->n = kept;
}

/* Makes arguments of any names, with values that additionalProperties allows. False: a
 * schema names properties or constrains names. */
static bool read_open(struct schema_reader *x, const struct schema_list *l, struct object *o)
{
	struct schema_list value = {0};
	if (o->n || !is_open(l))
		return false;
	for (size_t i = 0; i < l->n; i++) {
		const struct json_node *at = l->p[i].at;
		const struct json_node *more = schema_get(x, at, "additionalProperties");
		if (json_object_get(at->v, "patternProperties") ||
		    json_object_get(at->v, "propertyNames") ||
		    json_object_get(at->v, "unevaluatedProperties"))
			return false;
		if (more->v)
			schema_add(x, &value, more);
	}
	grammar_part first = grammar_build_class(x->b, name_chars, 3, false);
	grammar_part rest = grammar_build_repeat(
		x->b, grammar_build_class(x->b, name_chars, 4, false), 0, 200);
	o->additional = seq(x, seq(x, first, rest, lit(x, "=")), schema_part(x, &value),
			 lit(x, ""));
	return true;
}

grammar_part schema_keywords(struct schema_reader *x, const struct schema_list *l)
{
	struct object o = {.max = GRAMMAR_NO_MAX};
	grammar_part out = never(x);
	strmap_init(&o.index, 16);
	schema_check_arguments(x, l);
	if (x->st == OK)
		read_names(x, l, &o);
	bool is_possible = x->st == OK && leaves_objects(x, l, &o);
	if (is_possible) {
		o.is_open = read_open(x, l, &o);
		read_keywords(x, l, &o);
	}
	if (is_possible && x->st == OK)
		out = members(x, &o);
	strmap_deinit(&o.index);
	free(o.p);
	return out;
}
