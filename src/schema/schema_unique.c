/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays whose items must differ. Values from a list are kept apart exactly: a few values
 * come in any order, many in the list's order. All other values are divided into groups
 * that have no value in common: by first letter, by range, or objects by one of their
 * properties. One item of each group is written, in any order.
 */
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

#define MAX_ANY_ORDER 8 /* most values in any order; they take 2^n rules */
#define MAX_IN_ORDER 2000
#define FRUGAL_GROUPS 3

struct unique {
	struct schema_reader *x;
	grammar_part *values;
	size_t n;
	int64_t min, max;
	uint32_t *rules; /* rules by the set of values written so far */
};

/* Makes the rule for after the values whose bits are set. */
static void make_any_order(struct unique *u, uint32_t bits)
{
	struct schema_reader *x = u->x;
	grammar_part alts[SCHEMA_GROUPS + 1];
	size_t n = 0;
	int64_t n_set = __builtin_popcount(bits);
	for (size_t i = 0; i < u->n && n_set < u->max; i++) {
		if (bits >> i & 1)
			continue;
		alts[n++] = seq(x, n_set ? x->comma : lit(x, ""), u->values[i],
				grammar_build_tail(x->b, u->rules[bits | 1u << i]));
	}
	if (n_set >= u->min)
		alts[n++] = lit(x, "");
	grammar_build_set_rule(x->b, u->rules[bits], grammar_build_alt(x->b, alts, n));
}

static grammar_part in_any_order(struct unique *u)
{
	size_t n_rules = (size_t)1 << u->n;
	u->rules = xmalloc(n_rules * sizeof *u->rules);
	for (size_t i = 0; i < n_rules; i++)
		u->rules[i] = grammar_build_rule(u->x->b, STR("values that differ"));
	for (size_t i = 0; i < n_rules; i++)
		make_any_order(u, (uint32_t)i);
	grammar_part out = grammar_build_ref(u->x->b, u->rules[0]);
	free(u->rules);
	return out;
}

/* One rule per pair (i, c): writes values from i on after c were written. Counts that
 * make no difference share a rule. */
static grammar_part in_order(struct unique *u)
{
	struct schema_reader *x = u->x;
	int64_t n = (int64_t)u->n;
	int64_t n_counted = MAX(1, u->max < n ? u->max + 1 : u->min);
	size_t n_rules = (size_t)((n + 1) * (n_counted + 1));
	if (n_rules > 100000 || u->n > MAX_IN_ORDER) {
		schema_refuse(x, &x->root, "has items that must differ, of too many values");
		return 0;
	}
	schema_work(x, n_rules * 20);
	u->rules = xmalloc(n_rules * sizeof *u->rules);
	for (size_t i = 0; i < n_rules; i++)
		u->rules[i] = grammar_build_rule(x->b, STR("values that differ"));
	for (int64_t i = 0; i <= n; i++)
		for (int64_t c = 0; c <= n_counted; c++) {
			grammar_part alts[2];
			size_t k = 0;
			if (i < n && c < u->max) {
				int64_t next = MIN(c + 1, n_counted);
				alts[k++] = seq(x, c ? x->comma : lit(x, ""), u->values[i],
						grammar_build_tail(x->b, u->rules[
						(i + 1) * (n_counted + 1) + next]));
			}
			if (i < n)
				alts[k++] = grammar_build_tail(
					x->b, u->rules[(i + 1) * (n_counted + 1) + c]);
			else if (c >= u->min)
				alts[k++] = lit(x, "");
			grammar_build_set_rule(x->b, u->rules[i * (n_counted + 1) + c],
					       grammar_build_alt(x->b, alts, k));
		}
	grammar_part out = grammar_build_ref(x->b, u->rules[0]);
	free(u->rules);
	return out;
}

/* --- values from a list ---------------------------------------------------------- */

/* The values of an item, if enum, const or a type like boolean or null lists them. */
static bool item_values(struct schema_reader *x, const struct schema_list *item,
			const json_t ***out, size_t *out_n)
{
	static const int words = TYPE_BOOL | TYPE_NULL;
	int types = item->is_never || x->st != OK ? 0 : schema_types(x, item);
	if (x->st != OK)
		return false;
	if (schema_values(x, item, types, out, out_n))
		return true;
	if (types & ~words || (item->n != 1 && !item->is_never))
		return false;
	*out = arena_alloc(&x->arena, 3 * sizeof **out);
	*out_n = 0;
	if (types & TYPE_BOOL) {
		(*out)[(*out_n)++] = json_true();
		(*out)[(*out_n)++] = json_false();
	}
	if (types & TYPE_NULL)
		(*out)[(*out_n)++] = json_null();
	return !item->n || !schema_has_branches(item);
}

static grammar_part of_values(struct unique *u, const json_t **values, size_t n)
{
	struct schema_reader *x = u->x;
	schema_work(x, n * n);
	for (size_t i = 0; i < n; i++) {
		bool is_new = true;
		for (size_t k = 0; k < u->n && is_new; k++)
			is_new = !json_digits_equal(values[k], values[i]);
		if (is_new)
			values[u->n++] = values[i];
	}
	u->max = MIN(u->max, (int64_t)u->n);
	if (u->min > u->max)
		return grammar_build_alt(x->b, NULL, 0);
	u->values = xmalloc((u->n + 1) * sizeof *u->values);
	for (size_t i = 0; i < u->n; i++)
		u->values[i] = schema_choice(x, values + i, 1);
	grammar_part out = u->n <= MAX_ANY_ORDER ? in_any_order(u) : in_order(u);
	free(u->values);
	return out;
}

/* --- groups ------------------------------------------------------------------------ */

static grammar_part of_groups(struct unique *u, const struct schema_list *item)
{
	struct schema_reader *x = u->x;
	const struct json_node *at = item->n ? item->p[0].at : &x->root;
	const struct schema_item like = {.is_made = true, .is_silent = true};
	if (u->min > SCHEMA_GROUPS)
		schema_refuse(x, at, "is one of more than %d items that must differ",
			      SCHEMA_GROUPS);
	json_t *groups = x->st == OK && !item->is_never ? schema_split(x, item) : json_array();
	u->n = json_array_size(groups);
	if (schema_is_frugal(x))
		u->n = MIN(u->n, (size_t)MAX(FRUGAL_GROUPS, u->min));
	u->max = MIN(u->max, (int64_t)u->n);
	u->values = xmalloc((u->n + 1) * sizeof *u->values);
	for (size_t g = 0; g < u->n && x->st == OK; g++) {
		struct schema_list one = {0};
		for (size_t i = 0; i < item->n; i++)
			schema_add_item(x, &one, item->p[i]);
		json_t *group = json_incref(json_array_get(groups, g));
		schema_add_below(x, &one, schema_make(x, at, group), like);
		u->values[g] = schema_part(x, &one);
	}
	json_decref(groups);
	schema_work(x, u->n * 100 << u->n);
	grammar_part out = 0;
	if (x->st == OK)
		out = u->min > u->max ? grammar_build_alt(x->b, NULL, 0) : in_any_order(u);
	free(u->values);
	return out;
}

grammar_part schema_unique(struct schema_reader *x, struct schema_list *item, int64_t min,
			   int64_t max)
{
	struct unique u = {.x = x, .min = min, .max = max};
	const json_t **values;
	size_t n = 0;
	if (item_values(x, item, &values, &n))
		return of_values(&u, values, n);
	return x->st == OK ? of_groups(&u, item) : 0;
}
