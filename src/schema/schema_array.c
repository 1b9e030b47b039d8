/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of a schema: items by place, and items that `contains` asks for. The grammar
 * writes the prefix first, then the items that `contains` asks for, then all others.
 */
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

#define MAX_PREFIX 300

static grammar_part with_comma(struct schema_reader *x, grammar_part part)
{
	grammar_part pair[2] = {x->comma, part};
	return grammar_build_seq(x->b, pair, 2);
}

/* The maximum that remains after n items. */
static int64_t less(int64_t max, int64_t n)
{
	return max == GRAMMAR_NO_MAX ? max : max - n;
}

/* --- items by place --------------------------------------------------------------- */

/* Finds the schemas of the first items (prefix) and of all later ones, in the keywords of
 * either draft. */
static void find_items(struct schema_reader *x, const struct json_node *schema,
		       const struct json_node **prefix, const struct json_node **rest)
{
	*prefix = schema_get(x, schema, "prefixItems");
	*rest = schema_get(x, schema, "items");
	if (json_is_array((*rest)->v)) {
		*prefix = *rest;
		*rest = schema_get(x, schema, "additionalItems");
	}
}

static bool is_in_prefix(const struct json_node *prefix, ptrdiff_t i)
{
	return i >= 0 && (size_t)i < json_array_size(prefix->v);
}

static bool is_evaluated(struct schema_reader *x, const struct schema_list *l, size_t above,
			 ptrdiff_t i)
{
	for (size_t k = 0; k < l->n; k++) {
		const struct json_node *prefix, *rest;
		if (l->p[k].is_silent || !schema_is_below(l, k, above))
			continue;
		find_items(x, l->p[k].at, &prefix, &rest);
		if (rest->v || is_in_prefix(prefix, i) ||
		    (k != above && json_object_get(l->p[k].at->v, "unevaluatedItems")))
			return true;
	}
	return false;
}

/* Adds what the list says of item i; i -1: of the items after all prefixes. True: a schema
 * says something. */
static bool add_for_item(struct schema_reader *x, const struct schema_list *l,
			 ptrdiff_t i, struct schema_list *out)
{
	bool is_said = false;
	for (size_t k = 0; k < l->n && x->st == OK; k++) {
		const struct json_node *prefix, *rest;
		const struct json_node *other =
			schema_get(x, l->p[k].at, "unevaluatedItems");
		find_items(x, l->p[k].at, &prefix, &rest);
		if (is_in_prefix(prefix, i))
			schema_add(x, out, schema_item(x, prefix, (size_t)i));
		else if (rest->v)
			schema_add(x, out, rest);
		bool is_rest = other->v && !is_evaluated(x, l, k, i);
		if (is_rest)
			schema_add(x, out, other);
		is_said |= is_in_prefix(prefix, i) || rest->v || is_rest;
	}
	return is_said;
}

void schema_add_for_item(struct schema_reader *x, const struct schema_list *l, size_t i,
			 struct schema_list *out)
{
	add_for_item(x, l, (ptrdiff_t)i, out);
}

static size_t count_prefix(struct schema_reader *x, const struct schema_list *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *prefix, *rest;
		size_t own = 0;
		find_items(x, l->p[i].at, &prefix, &rest);
		schema_check(x, json_read_list(prefix, MAX_PREFIX, &own, x->fail));
		n = MAX(n, own);
	}
	return n;
}

struct array {
	struct schema_reader *x;
	const struct schema_list *l;
	size_t n_prefix;
	int64_t min, max;
};

/* min to max items. has_before: a comma precedes the first one too. */
static grammar_part schema_array_run(struct schema_reader *x, grammar_part item, bool has_before,
				     int64_t min, int64_t max)
{
	if (max < min)
		return never(x);
	if (max == 0)
		return lit(x, "");
	if (has_before)
		return grammar_build_repeat(x->b, with_comma(x, item), rule_count(min),
					    rule_count(max));
	grammar_part pair[2] = {item, grammar_build_repeat(
		x->b, with_comma(x, item), rule_count(MAX(min - 1, 0)),
		rule_count(less(max, 1)))};
	grammar_part some = grammar_build_seq(x->b, pair, 2);
	return min == 0 ? grammar_build_opt(x->b, some) : some;
}

/* The items after the prefix. */
static grammar_part rest_items(const struct array *a)
{
	struct schema_list rest = {0};
	bool is_said = add_for_item(a->x, a->l, -1, &rest);
	int64_t p = (int64_t)a->n_prefix;
	if ((p > 0 && !is_said && a->min <= p) || a->max <= p)
		return lit(a->x, "");
	return schema_array_run(a->x, schema_part(a->x, &rest), p > 0, MAX(a->min - p, 0),
				less(a->max, p));
}

/* The prefix followed by `behind`. Optional items nest: each item includes all that
 * follow it. is_whole: no item of the prefix is optional. */
static grammar_part with_prefix(const struct array *a, grammar_part behind, bool is_whole)
{
	struct schema_reader *x = a->x;
	grammar_part out = behind;
	for (size_t i = a->n_prefix; i-- > 0;) {
		struct schema_list here = {0};
		if ((int64_t)i >= a->max) {
			out = lit(x, "");
			continue;
		}
		add_for_item(x, a->l, (ptrdiff_t)i, &here);
		out = seq(x, i ? x->comma : lit(x, ""), schema_part(x, &here), out);
		if ((int64_t)i >= a->min && !is_whole)
			out = grammar_build_opt(x->b, out);
	}
	return out;
}

/* --- contains ------------------------------------------------------------------------ */

static void read_contains(struct schema_reader *x, const struct json_node *schema,
			  int64_t *min, int64_t *max)
{
	const struct json_node *at = schema_get(x, schema, "minContains");
	*min = 1;
	*max = GRAMMAR_NO_MAX;
	schema_check(x, json_read_int(at, 0, GRAMMAR_MAX_REPEAT, min, x->fail));
	at = schema_get(x, schema, "maxContains");
	schema_check(x, json_read_int(at, 0, GRAMMAR_MAX_REPEAT, max, x->fail));
}

/* Items of which least to most match `of`. The matching ones are written first. */
static grammar_part bounded(const struct array *a, const struct json_node *of,
			    grammar_part match, int64_t least, int64_t most)
{
	struct schema_reader *x = a->x;
	struct schema_list others = {0};
	int64_t p = (int64_t)a->n_prefix, min = MAX(a->min - p, 0), max = less(a->max, p);
	json_t *not = schema_not(x, of);
	if (!not) /* no schema for items that do not match: all items match */
		return schema_array_run(x, match, p > 0, MAX(least, min), MIN(most, max));
	add_for_item(x, a->l, -1, &others);
	schema_add(x, &others, schema_make(x, of, not));
	grammar_part other = schema_part(x, &others);
	struct grammar_parts alts = {0};
	most = MIN(most, least + 20);
	for (int64_t n = least; n <= most && n <= max && x->st == OK; n++) {
		grammar_part pair[2] = {
			schema_array_run(x, match, p > 0, n, n),
			schema_array_run(x, other, p > 0 || n > 0, MAX(min - n, 0), less(max, n))};
		grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
	}
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

/* Reads the `contains` of all schemas that hold together. True: *out is the grammar of the
 * whole array. False: no schema asks for contained items, and *out is not set. */
static bool contains(const struct array *a, grammar_part *out)
{
	struct schema_reader *x = a->x;
	struct grammar_parts parts = {0};
	int64_t n_all = (int64_t)a->n_prefix, least, most;
	size_t n_asked = 0;
	bool is_bounded = false;
	for (size_t i = 0; i < a->l->n && x->st == OK; i++) {
		const struct json_node *schema = a->l->p[i].at;
		const struct json_node *of = schema_get(x, schema, "contains");
		struct schema_list both = {0};
		if (!of->v)
			continue;
		read_contains(x, schema, &least, &most);
		if (least == 0 && most == GRAMMAR_NO_MAX)
			continue;
		n_asked++;
		is_bounded |= most != GRAMMAR_NO_MAX;
		if ((is_bounded && (n_asked > 1 || n_all > 0 || a->n_prefix)))
			schema_refuse(x, schema, "uses \"maxContains\" beside other items "
				      "that are asked for, which is not supported");
		if (least > most)
			least = GRAMMAR_MAX_REPEAT; /* impossible, because this exceeds every
						     * maximum */
		add_for_item(x, a->l, -1, &both);
		schema_add(x, &both, of);
		grammar_part match = schema_part(x, &both);
		grammar_parts_add(&parts, is_bounded
			? bounded(a, of, match, least, most)
			: schema_array_run(x, match, n_all > 0, least, least));
		n_all += least;
	}
	if (n_asked && !is_bounded && n_all <= a->max) {
		struct schema_list rest = {0};
		add_for_item(x, a->l, -1, &rest);
		grammar_parts_add(&parts, schema_array_run(x, schema_part(x, &rest), n_all > 0,
							   MAX(a->min - n_all, 0),
							   less(a->max, n_all)));
	}
	if (n_asked && x->st == OK)
		*out = n_all > a->max && !is_bounded
			       ? never(x)
			       : with_prefix(a, grammar_build_seq(x->b, parts.p, parts.n),
					     true);
	free(parts.p);
	return n_asked > 0;
}

/* --- the whole --------------------------------------------------------------------------- */

/* Reads negated values and the bounds of the length. False: no array can be written. */
static bool leaves_arrays(struct schema_reader *x, const struct schema_list *l,
			  struct array *a)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *not = json_object_get(l->p[i].at->v, SCHEMA_NOT_VALUES);
		for (size_t k = 0; k < json_array_size(not); k++) {
			const json_t *v = json_array_get(not, k);
			if (json_is_array(v) && json_array_size(v))
				return false; /* the grammar cannot express "differs from this
					       * array" */
			if (json_is_array(v))
				a->min = 1;
		}
	}
	schema_read_min(x, l, "minItems", &a->min);
	schema_read_max(x, l, "maxItems", &a->max);
	if (a->min > GRAMMAR_MAX_REPEAT)
		schema_refuse(x, l->p[0].at, "has a \"minItems\" above %d",
			      GRAMMAR_MAX_REPEAT);
	if (a->max > GRAMMAR_MAX_REPEAT && a->max < GRAMMAR_NO_MAX)
		a->max = GRAMMAR_MAX_REPEAT;
	return a->min <= a->max;
}

static bool is_unique(const struct schema_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (json_is_true(json_object_get(l->p[i].at->v, "uniqueItems")))
			return true;
	return false;
}

static bool has_contains(const struct schema_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (json_object_get(l->p[i].at->v, "contains"))
			return true;
	return false;
}

static grammar_part unique_items(const struct array *a)
{
	struct schema_list item = {0};
	add_for_item(a->x, a->l, -1, &item);
	return a->x->st == OK ? schema_unique(a->x, &item, a->min, a->max) : 0;
}

grammar_part schema_array(struct schema_reader *x, const struct schema_list *l)
{
	struct array a = {.x = x, .l = l, .max = GRAMMAR_NO_MAX};
	grammar_part inner = 0;
	if (!leaves_arrays(x, l, &a) || x->st != OK)
		return never(x);
	a.n_prefix = count_prefix(x, l);
	/* With `contains` or a prefix the items cannot be compared. A single item always
	 * differs. */
	if (is_unique(l) && (a.n_prefix > 0 || has_contains(l)))
		a.max = MIN(a.max, 1);
	if (a.min > a.max) {
		schema_refuse(x, l->p[0].at, "uses \"uniqueItems\" beside \"contains\" or "
			      "items by place, which is not supported for several items");
		return 0;
	}
	bool is_kept_apart = is_unique(l) && a.max > 1;
	bool is_asked = x->st == OK && contains(&a, &inner);
	if (is_kept_apart && x->st == OK)
		inner = unique_items(&a);
	else if (!is_asked && x->st == OK)
		inner = with_prefix(&a, rest_items(&a), false);
	return x->st == OK ? seq(x, lit(x, "["), inner, lit(x, "]")) : 0;
}
