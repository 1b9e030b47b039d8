/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the list's first keyword with alternatives into one copy of the list per
 * alternative ("way"). The ways are:
 *
 *   anyOf              each branch
 *   oneOf              each branch, without documents that match another branch too
 *   not                the schema that schema_not makes
 *   if, then, else     "if" and "then"; or the negated "if", and "else"
 *   dependentRequired, dependentSchemas, dependencies
 *                      for each name: the property is absent; or it is present and its
 *                      constraint holds
 *
 * A way that leaves a property no value is dropped. Otherwise the ways of several
 * keywords would multiply.
 */
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

#define MAX_BRANCHES 2000
#define MAX_ONE_OF 200

/* --- contradictions ---------------------------------------------------------- */

/* The const or enum of a schema, as an array that the caller frees; NULL: none. */
static json_t *values_of(const json_t *v)
{
	json_t *one = json_object_get(v, "const"), *many = json_object_get(v, "enum");
	if (one)
		return json_pack("[O]", one);
	return json_is_array(many) ? json_incref(many) : NULL;
}

static bool has_value(const json_t *list, const json_t *v)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_digits_equal(json_array_get(list, i), v))
			return true;
	return false;
}

/* True if the list's schemas still permit a value of `values` for property `name`. */
static bool has_possible(struct schema_reader *x, const struct schema_list *l,
			 const char *name, const json_t *values)
{
	for (size_t i = 0; i < json_array_size(values); i++) {
		const json_t *v = json_array_get(values, i);
		bool is_fine = true;
		for (size_t k = 0; k < l->n && is_fine; k++) {
			const json_t *of = json_object_get(
				json_object_get(l->p[k].at->v, "properties"), name);
			const json_t *not_in = json_object_get(of, SCHEMA_NOT_VALUES);
			json_t *own = values_of(of);
			schema_work(x, 2 + json_array_size(own) + json_array_size(not_in));
			is_fine = !json_is_false(of) && (!own || has_value(own, v)) &&
				  !has_value(not_in, v);
			json_decref(own);
		}
		if (is_fine)
			return true;
	}
	return false;
}

static bool is_required(struct schema_reader *x, const struct schema_list *l,
			const char *name)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *r = json_object_get(l->p[i].at->v, "required");
		schema_work(x, 1 + json_array_size(r));
		for (size_t k = 0; k < json_array_size(r); k++) {
			const char *s = json_string_value(json_array_get(r, k));
			if (s && strcmp(s, name) == 0)
				return true;
		}
	}
	return false;
}

/* True if the list's schemas permit some type for the property. Looks at the property's own
 * schemas, and follows at most one reference. */
static bool has_type(struct schema_reader *x, const struct schema_list *l, const char *name)
{
	int types = TYPE_ALL;
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const json_t *v = json_object_get(
			json_object_get(l->p[i].at->v, "properties"), name);
		schema_work(x, 1);
		if (!json_is_object(v))
			continue;
		const struct json_node *at = schema_get(
			x, schema_get(x, l->p[i].at, "properties"), name);
		const struct json_node *ref = schema_get(x, at, "$ref");
		types &= schema_type(x, at);
		if (ref->v && (at = schema_resolve(x, ref)) && json_is_object(at->v))
			types &= schema_type(x, at);
	}
	return types != 0;
}

/* True if a property has no permitted value left. only_required: looks at required
 * properties only. */
static bool is_contradiction(struct schema_reader *x, const struct schema_list *l,
			     bool only_required)
{
	const char *key;
	json_t *v;
	for (size_t i = 0; i < l->n && x->st == OK; i++)
		json_object_foreach(json_object_get(l->p[i].at->v, "properties"), key, v) {
			json_t *values = values_of(v);
			bool is_left = (!values && !json_is_false(v)) ||
				       (values && has_possible(x, l, key, values));
			if (is_left && l->p[i].is_silent && json_is_object(v))
				is_left = has_type(x, l, key);
			is_left |= only_required && !is_required(x, l, key);
			json_decref(values);
			schema_work(x, 1);
			if (!is_left)
				return true;
		}
	return false;
}

/* --- ways ------------------------------------------------------------------------ */

struct ways {
	struct schema_reader *x;
	const struct schema_list *l;
	size_t i;      /* index of the item that has the keyword */
	uint8_t done;
	struct grammar_parts alts;
};

/* A copy of the list in which the keyword counts as done. */
static struct schema_list begin_way(struct ways *w)
{
	struct schema_list sub = {.is_never = w->l->is_never};
	for (size_t j = 0; j < w->l->n; j++) {
		struct schema_item item = w->l->p[j];
		item.done |= j == w->i ? w->done : 0;
		schema_add_item(w->x, &sub, item);
	}
	return sub;
}

static void add_to_way(struct ways *w, struct schema_list *sub, const struct json_node *at,
		       bool is_made, bool is_silent)
{
	const struct schema_item *of = &w->l->p[w->i];
	schema_add_below(w->x, sub, at, (struct schema_item){
		.parent = (uint32_t)w->i + 1, .is_made = is_made || of->is_made,
		.is_silent = is_silent || of->is_silent});
}

static void end_way(struct ways *w, struct schema_list *sub)
{
	if (w->x->st == OK && !sub->is_never && !is_contradiction(w->x, sub, true))
		grammar_parts_add(&w->alts, schema_part(w->x, sub));
}

static grammar_part end_ways(struct ways *w)
{
	grammar_part out = grammar_build_alt(w->x->b, w->alts.p, w->alts.n);
	free(w->alts.p);
	return out;
}

/* --- oneOf: which branches exclude each other ------------------------------------ */

static int branch_types(struct schema_reader *x, const struct schema_list *l)
{
	int types = TYPE_ALL;
	for (size_t i = 0; i < l->n; i++)
		types &= schema_type(x, l->p[i].at);
	return types;
}

static bool are_apart(struct schema_reader *x, const json_t *a, const json_t *b)
{
	json_t *of_a = values_of(a), *of_b = values_of(b);
	schema_work(x, json_array_size(of_a) * json_array_size(of_b));
	bool are = of_a && of_b && x->st == OK;
	for (size_t i = 0; are && i < json_array_size(of_a); i++)
		are = !has_value(of_b, json_array_get(of_a, i));
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

/* True if both schemas require a property for which they permit no common value. */
static bool have_tag(struct schema_reader *x, const json_t *a, const json_t *b)
{
	const char *key;
	json_t *v;
	size_t n_required = json_array_size(json_object_get(a, "required")) +
			    json_array_size(json_object_get(b, "required"));
	schema_work(x, 10 + json_object_size(json_object_get(a, "properties")) *
				    (n_required + 10));
	const json_t *others = json_object_get(b, "properties");
	json_object_foreach(json_object_get(a, "properties"), key, v)
		if (requires(a, key) && requires(b, key) &&
		    are_apart(x, v, json_object_get(others, key)))
			return true;
	return false;
}

/* True if objects of the schema have no other properties than those that it lists. */
static bool is_closed(const json_t *v)
{
	return json_is_false(json_object_get(v, "additionalProperties")) &&
	       !json_object_get(v, "patternProperties");
}

/* True if `asks` requires a property that `closed` does not let in. */
static bool is_shut_out(struct schema_reader *x, const json_t *asks, const json_t *closed)
{
	const json_t *listed = json_object_get(closed, "properties");
	const json_t *r = json_object_get(asks, "required");
	for (size_t i = 0; is_closed(closed) && i < json_array_size(r); i++) {
		const char *name = json_string_value(json_array_get(r, i));
		schema_work(x, 1);
		if (name && !json_object_get(listed, name))
			return true;
	}
	return false;
}

static bool are_disjoint(struct schema_reader *x, const struct schema_list *a,
			 const struct schema_list *b)
{
	if (a->is_never || b->is_never || !(branch_types(x, a) & branch_types(x, b)))
		return true;
	bool are_objects = branch_types(x, a) == TYPE_OBJECT || branch_types(x, b) == TYPE_OBJECT;
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n && x->st == OK; k++) {
			const json_t *v = a->p[i].at->v, *w = b->p[k].at->v;
			if (are_apart(x, v, w) ||
			    (are_objects && (have_tag(x, v, w) || is_shut_out(x, v, w) ||
					     is_shut_out(x, w, v))))
				return true;
		}
	return false;
}

/* --- ways not to match ------------------------------------------------------------- */

/* True if the list and the schema `way` do not contradict each other. */
static bool goes_with(struct schema_reader *x, const struct schema_list *l,
		      const struct json_node *way)
{
	struct schema_list both = {.is_never = l->is_never};
	for (size_t i = 0; i < l->n; i++)
		schema_add_item(x, &both, l->p[i]);
	schema_add_below(x, &both, way, (struct schema_item){.is_silent = true});
	int types = x->st == OK && !both.is_never ? schema_types(x, &both) : 0;
	return types && !(types == TYPE_OBJECT && is_contradiction(x, &both, true));
}

static bool knows(const struct schema_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (json_object_get(json_object_get(l->p[i].at->v, "properties"), name))
			return true;
	return false;
}

/* How far a way is from what the list alone would write. 0: it requires a property that the
 * list has, perhaps with another value. 1: it forbids a property that the list does not
 * have. 2: any other way. */
static int way_rank(const struct schema_list *l, const json_t *way)
{
	const char *name = json_string_value(
		json_array_get(json_object_get(way, "required"), 0));
	json_t *properties = json_object_get(way, "properties");
	if (name)
		return knows(l, name) ? 0 : 2;
	name = json_object_iter_key(json_object_iter(properties));
	return name && !knows(l, name) ? 1 : 2;
}

/* Keeps at most `most` branches of a schema from schema_not, those that can hold together
 * with the list. Without this limit, the branches of several keywords multiply. The most
 * natural ones come first. Takes ownership of `not`. */
static json_t *schema_branch_trim(struct schema_reader *x, const struct schema_list *l,
				  const struct json_node *up, json_t *not, size_t most)
{
	json_t *ways = json_object_get(not, "anyOf"), *kept = json_array();
	for (int rank = 0; rank < 3 && ways && x->st == OK; rank++)
		for (size_t i = 0; i < json_array_size(ways); i++) {
			json_t *way = json_array_get(ways, i);
			const struct json_node at = {.v = way, .up = up->up,
						     .key = up->key};
			if (json_array_size(kept) < most && way_rank(l, way) == rank &&
			    goes_with(x, l, schema_make(x, &at, json_incref(way))))
				json_array_append(kept, way);
		}
	struct buf key = {0};
	buf_add_z(&key, "ways");
	for (size_t i = 0; i < json_array_size(kept); i++) {
		const json_t *way = json_array_get(kept, i);
		buf_add(&key, &way, sizeof way);
	}
	json_t *out = schema_made(x, buf_str(&key));
	if (!out && json_array_size(kept))
		out = schema_remember(x, buf_str(&key), json_pack("{sO}", "anyOf", kept));
	else if (!out)
		out = json_false();
	buf_deinit(&key);
	json_decref(kept);
	if (!ways)
		return not;
	json_decref(not);
	return out;
}

/* --- the keywords ------------------------------------------------------------------ */

static size_t read_branches(struct schema_reader *x, const struct json_node *of)
{
	size_t n = 0;
	schema_check(x, json_read_list(of, MAX_BRANCHES, &n, x->fail));
	if (x->st == OK && n == 0)
		schema_refuse(x, of, "must have at least one schema");
	return x->st == OK ? n : 0;
}

/* How many branches of a negation to write. Branches of several negations multiply, and
 * any of them is correct. */
static size_t most_ways(const struct ways *w)
{
	size_t n = 0;
	if (!w->l->p[w->i].is_silent)
		return MAX_BRANCHES;
	for (size_t i = 0; i < w->l->n; i++)
		n += w->l->p[i].is_silent && !(w->l->p[i].done & DONE_ANY) &&
		     json_object_get(w->l->p[i].at->v, "anyOf");
	return n > 3 || schema_is_frugal(w->x) ? 1 : n > 1 ? 4 : MAX_BRANCHES;
}

static grammar_part any_of(struct ways *w, const struct json_node *at)
{
	size_t n = read_branches(w->x, at), most = most_ways(w), n_added = 0;
	for (size_t k = 0; k < n && n_added < most && w->x->st == OK; k++) {
		const struct json_node *branch = schema_item(w->x, at, k);
		struct schema_list sub = begin_way(w);
		if (most < MAX_BRANCHES && !goes_with(w->x, &sub, branch))
			continue;
		add_to_way(w, &sub, branch, false, false);
		end_way(w, &sub);
		n_added++;
	}
	return end_ways(w);
}

/* Adds ways for documents of `own` to differ from `other`: a property of `own` that `other`
 * does not permit. Takes ownership of `not`, the ways known so far; NULL: none. */
static json_t *add_shut_out(struct schema_reader *x, const struct schema_list *own,
			    const struct schema_list *other, json_t *not)
{
	const char *name;
	json_t *v, *ways = json_array();
	for (size_t i = 0; i < own->n * other->n && x->st == OK; i++) {
		const json_t *closed = other->p[i % other->n].at->v;
		const json_t *listed = json_object_get(closed, "properties");
		const json_t *mine = json_object_get(own->p[i / other->n].at->v, "properties");
		json_object_foreach(is_closed(closed) ? (json_t *)mine : NULL, name, v)
			if (!json_object_get(listed, name) && !json_is_false(v))
				json_array_append_new(ways, json_pack(
					"{sss[s]}", "type", "object", "required", name));
		schema_work(x, 1 + json_object_size(mine));
	}
	if (json_array_size(ways)) {
		json_t *known = json_object_get(not, "anyOf");
		if (known)
			json_array_extend(ways, known);
		else if (not && !json_is_false(not))
			json_array_append(ways, not);
		json_decref(not);
		not = json_pack("{sO}", "anyOf", ways);
	}
	json_decref(ways);
	return not;
}

/* Branch k, without documents that might match another branch too. False: another branch
 * cannot be excluded, so branch k cannot be written. */
static bool add_one_of(struct ways *w, const struct json_node *at,
		       const struct schema_list *own, size_t n, size_t k)
{
	struct schema_reader *x = w->x;
	struct schema_list sub = begin_way(w);
	size_t n_others = 0, most = 64;
	add_to_way(w, &sub, schema_item(x, at, k), false, false);
	for (size_t j = 0; j < n; j++)
		n_others += j != k && !are_disjoint(x, &own[j], &own[k]);
	if (n_others > 1)
		most = n_others > 3 || schema_is_frugal(x) ? 1 : 4;
	for (size_t j = 0; j < n && x->st == OK && !sub.is_never; j++) {
		if (j == k || are_disjoint(x, &own[j], &own[k]))
			continue;
		const struct json_node *other = schema_item(x, at, j);
		json_t *not = add_shut_out(x, &own[k], &own[j], schema_not(x, other));
		if (!not)
			return false;
		not = schema_branch_trim(x, &own[k], other, not, most);
		add_to_way(w, &sub, schema_make(x, other, not), true, true);
	}
	end_way(w, &sub);
	return true;
}

static grammar_part one_of(struct ways *w, const struct json_node *at)
{
	struct schema_reader *x = w->x;
	size_t n = read_branches(x, at), n_written = 0;
	if (n > MAX_ONE_OF)
		schema_refuse(x, at, "has more than %d schemas", MAX_ONE_OF);
	struct schema_list *own = arena_alloc(&x->arena, (n + 1) * sizeof *own);
	for (size_t k = 0; k < n && x->st == OK; k++)
		schema_add(x, &own[k], schema_item(x, at, k));
	for (size_t k = 0; k < n && x->st == OK; k++)
		n_written += add_one_of(w, at, own, n, k);
	if (x->st == OK && n > 0 && n_written == 0)
		schema_refuse(x, at, "has schemas that may match at once, and it cannot be "
			      "said when: use \"anyOf\", or give each a type or a required "
			      "const of its own");
	return end_ways(w);
}

static grammar_part not_of(struct ways *w, const struct json_node *at)
{
	json_t *not = schema_not(w->x, at);
	if (!not) {
		schema_refuse(w->x, at, "cannot be held to: it cannot be said what does not "
			      "match");
		return 0;
	}
	struct schema_list sub = begin_way(w);
	add_to_way(w, &sub, schema_make(w->x, at, not), true, true);
	end_way(w, &sub);
	return end_ways(w);
}

static grammar_part if_of(struct ways *w, const struct json_node *at)
{
	struct schema_reader *x = w->x;
	const struct json_node *own = w->l->p[w->i].at;
	const struct json_node *then = schema_get(x, own, "then");
	const struct json_node *other = schema_get(x, own, "else");
	struct schema_list sub = begin_way(w);
	if (!then->v && !other->v) {
		end_way(w, &sub);
		return end_ways(w);
	}
	json_t *not = schema_not(x, at);
	size_t n_ifs = 0;
	for (size_t i = 0; i < w->l->n; i++)
		n_ifs += !(w->l->p[i].done & DONE_IF) &&
			 json_object_get(w->l->p[i].at->v, "if");
	if (not && (n_ifs > 2 || schema_is_frugal(x)))
		not = schema_branch_trim(x, w->l, at, not, n_ifs > 5 || schema_is_frugal(x) ? 1
					 : 2);
	add_to_way(w, &sub, at, true, false);
	if (then->v)
		add_to_way(w, &sub, then, false, false);
	/* With a contradiction, the branch could only hold by the absence of properties.
	 * This is rare and left out. */
	if (!not || !is_contradiction(x, &sub, false))
		end_way(w, &sub);
	if (!not)
		return end_ways(w);
	sub = begin_way(w);
	add_to_way(w, &sub, schema_make(x, at, not), true, true);
	if (other->v)
		add_to_way(w, &sub, other, false, false);
	end_way(w, &sub);
	return end_ways(w);
}

/* {"anyOf": [{"properties": {name: false}}, {"required": [name, …], …}]} */
static json_t *dependent(struct schema_reader *x, const char *name, const json_t *asks,
			 const struct json_node *at)
{
	json_t *without = json_pack("{s{so}}", "properties", name, json_false());
	json_t *with = json_pack("{s[s]}", "required", name);
	json_t *schema = NULL;
	size_t i;
	json_t *more;
	if (json_is_array(asks)) {
		json_array_foreach((json_t *)asks, i, more)
			json_array_append(json_object_get(with, "required"), more);
	} else if (json_is_object(asks) || json_is_boolean(asks)) {
		schema = (json_t *)asks;
	} else {
		schema_refuse(x, at, "must be a schema or a list of names");
	}
	if (schema)
		with = json_pack("{s[oO]}", "allOf", with, schema);
	return json_pack("{s[oo]}", "anyOf", without, with);
}

static grammar_part dependents(struct ways *w)
{
	static const char *const names[] = {"dependentRequired", "dependentSchemas",
					    "dependencies"};
	struct schema_reader *x = w->x;
	struct schema_list sub = begin_way(w);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct json_node *at =
			schema_get(x, w->l->p[w->i].at, names[i]);
		const char *key;
		json_t *v;
		schema_check(x, json_read_object(at, x->fail));
		if (x->st != OK || !at->v)
			continue;
		json_object_foreach((json_t *)at->v, key, v) {
			const struct json_node *one = schema_get(x, at, key);
			struct str of = {(const char *)&v, sizeof v};
			json_t *made = json_is_boolean(v) ? NULL : schema_made(x, of);
			if (!made)
				made = schema_remember(x, of, dependent(x, key, v, one));
			add_to_way(w, &sub, schema_make(x, one, made), true, false);
		}
	}
	end_way(w, &sub);
	return end_ways(w);
}

static bool has_dependents(const json_t *v)
{
	return json_object_size(json_object_get(v, "dependentRequired")) ||
	       json_object_size(json_object_get(v, "dependentSchemas")) ||
	       json_object_size(json_object_get(v, "dependencies"));
}

bool schema_has_branches(const struct schema_list *l)
{
	static const char *const keys[] = {"anyOf", "oneOf", "not", "if"};
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < ARRAY_LEN(keys); k++)
			if (json_object_get(l->p[i].at->v, keys[k]) ||
			    has_dependents(l->p[i].at->v))
				return true;
	return false;
}

bool schema_branches(struct schema_reader *x, const struct schema_list *l,
		     grammar_part *out)
{
	static const struct {
		uint8_t done;
		const char *key;
		grammar_part (*read)(struct ways *w, const struct json_node *at);
	} ways[] = {{DONE_ANY, "anyOf", any_of}, {DONE_ONE, "oneOf", one_of},
		    {DONE_NOT, "not", not_of}, {DONE_IF, "if", if_of}};
	if (is_contradiction(x, l, true)) {
		*out = grammar_build_alt(x->b, NULL, 0);
		return true;
	}
	for (size_t k = 0; k < ARRAY_LEN(ways); k++)
		for (size_t i = 0; i < l->n; i++) {
			const struct schema_item *it = &l->p[i];
			struct ways w = {.x = x, .l = l, .i = i, .done = ways[k].done};
			if (it->done & w.done || !json_object_get(it->at->v, ways[k].key))
				continue;
			*out = ways[k].read(&w, schema_get(x, it->at, ways[k].key));
			return true;
		}
	for (size_t i = 0; i < l->n; i++) {
		struct ways w = {.x = x, .l = l, .i = i, .done = DONE_DEPENDENT};
		if (!(l->p[i].done & w.done) && has_dependents(l->p[i].at->v)) {
			*out = dependents(&w);
			return true;
		}
	}
	return false;
}
