/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects and arrays of a schema.
 *
 * An object's properties come in the schema's order, so that which were written needs no
 * memory: behind each, the rest is a rule of its own ("from property i on, with
 * commas"), shared by all that can come before.
 */
#include <stdio.h>
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"
#include "base/utf8.h"

#define MAX_NAME 200 /* characters of further names that begin like a property's */

static grammar_part lit(struct schema_reader *x, const char *s)
{
	return grammar_build_lit(x->b, str_of(s));
}

static grammar_part seq(struct schema_reader *x, grammar_part a, grammar_part b,
			grammar_part c)
{
	grammar_part parts[3] = {a, b, c};
	return grammar_build_seq(x->b, parts, 3);
}

static grammar_part never(struct schema_reader *x)
{
	return grammar_build_alt(x->b, NULL, 0);
}

static uint32_t rule_count(int64_t n)
{
	return n >= GRAMMAR_NO_MAX ? GRAMMAR_NO_MAX : (uint32_t)n;
}

/* A maximum, once n of it are there. */
static uint32_t less(int64_t max, int64_t n)
{
	return max == GRAMMAR_NO_MAX ? GRAMMAR_NO_MAX : rule_count(max - n);
}

/* --- arrays -------------------------------------------------------------- */

/* What holds for item i; for i of -1, for those behind all prefixItems. True when
 * a schema says something of it. */
static bool add_for_item(struct schema_reader *x, const struct schema_list *l,
			 ptrdiff_t i, struct schema_list *out)
{
	bool is_said = false;
	for (size_t k = 0; k < l->n && x->st == OK; k++) {
		const struct json_node *prefix =
			schema_get(x, l->p[k].at, "prefixItems");
		const struct json_node *items = schema_get(x, l->p[k].at, "items");
		bool in_prefix = i >= 0 && (size_t)i < json_array_size(prefix->v);
		if (json_is_array(items->v))
			schema_refuse(x, items, "must be one schema: a list is "
				      "called \"prefixItems\"");
		if (!in_prefix && !items->v)
			continue;
		is_said = true;
		schema_add(x, out, in_prefix ? schema_item(x, prefix, (size_t)i)
					     : items);
	}
	return is_said;
}

static size_t count_prefix(struct schema_reader *x, const struct schema_list *l)
{
	size_t n = 0;
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		size_t own = 0;
		const struct json_node *at = schema_get(x, l->p[i].at, "prefixItems");
		schema_check(x, json_read_list(at, 300, &own, x->fail));
		n = MAX(n, own);
	}
	return n;
}

/* Items from i on, each with its comma but the array's first. */
static grammar_part items_from(struct schema_reader *x, const struct schema_list *l,
			       size_t n_prefix, int64_t min, int64_t max)
{
	struct schema_list rest = {0};
	bool is_said = add_for_item(x, l, -1, &rest);
	bool is_open = n_prefix == 0 || is_said || min > (int64_t)n_prefix;
	int64_t p = (int64_t)n_prefix;
	grammar_part out = lit(x, "");
	if (is_open && max > p) {
		grammar_part item = schema_part(x, &rest);
		grammar_part pair[2] = {x->comma, item};
		grammar_part next = grammar_build_seq(x->b, pair, 2);
		int64_t least = MAX(min - p, 0);
		if (p > 0) {
			out = grammar_build_repeat(x->b, next, rule_count(least),
						   less(max, p));
		} else {
			grammar_part tail = grammar_build_repeat(
				x->b, next, rule_count(MAX(least - 1, 0)),
				less(max, 1));
			pair[0] = item;
			pair[1] = tail;
			out = grammar_build_seq(x->b, pair, 2);
			if (least == 0)
				out = grammar_build_opt(x->b, out);
		}
	}
	/* The prefix from its end: each item brings all behind it along. */
	for (size_t i = n_prefix; i-- > 0;) {
		struct schema_list here = {0};
		if ((int64_t)i >= max) {
			out = lit(x, "");
			continue;
		}
		add_for_item(x, l, (ptrdiff_t)i, &here);
		out = seq(x, i ? x->comma : lit(x, ""), schema_part(x, &here), out);
		if ((int64_t)i >= min)
			out = grammar_build_opt(x->b, out);
	}
	return out;
}

grammar_part schema_array(struct schema_reader *x, const struct schema_list *l)
{
	int64_t min = 0, max = GRAMMAR_NO_MAX;
	schema_read_min(x, l, "minItems", &min);
	schema_read_max(x, l, "maxItems", &max);
	if (min > GRAMMAR_MAX_REPEAT ||
	    (max > GRAMMAR_MAX_REPEAT && max < GRAMMAR_NO_MAX)) {
		schema_refuse(x, l->p[0].at, "has a \"minItems\" or \"maxItems\" above "
			      "%d", GRAMMAR_MAX_REPEAT);
		return 0;
	}
	if (min > max)
		return never(x);
	size_t n_prefix = count_prefix(x, l);
	return seq(x, lit(x, "["), items_from(x, l, n_prefix, min, max), lit(x, "]"));
}

/* --- names --------------------------------------------------------------- */

struct property {
	const char *name;
	bool is_required;
	grammar_part part; /* "name": value */
};

struct object {
	struct property *p;
	size_t n, cap;
	struct strmap index; /* of name */
	size_t n_required;
	bool is_open;        /* further properties may be written */
	grammar_part further;
	int64_t min, max;    /* of further ones */
	int64_t min_all;
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

/* Names in the order of the schemas; required ones that have no schema come last. */
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
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *at = schema_get(x, l->p[i].at, "required");
		size_t n = 0;
		schema_check(x, json_read_list(at, 100000, &n, x->fail));
		for (size_t k = 0; k < n && x->st == OK; k++) {
			struct str s = STR("");
			schema_check(x, json_read_need_str(schema_item(x, at, k), &s,
							   x->fail));
			if (x->st != OK)
				break;
			size_t at_name = add_name(o, arena_strdup(&x->arena, s.p));
			struct property *p = &o->p[at_name];
			o->n_required += !p->is_required;
			p->is_required = true;
		}
	}
}

/* What holds for the value of a name; NULL: of one that no schema names. */
static void add_for_name(struct schema_reader *x, const struct schema_list *l,
			 const char *name, struct schema_list *out)
{
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *props =
			schema_get(x, l->p[i].at, "properties");
		const struct json_node *other =
			schema_get(x, l->p[i].at, "additionalProperties");
		if (name && json_object_get(props->v, name))
			schema_add(x, out, schema_get(x, props, name));
		else if (other->v)
			schema_add(x, out, other);
	}
}

/* `"name": value` for each. */
static void read_properties(struct schema_reader *x, const struct schema_list *l,
			    struct object *o)
{
	struct buf text = {0};
	for (size_t i = 0; i < o->n && x->st == OK; i++) {
		struct schema_list value = {0};
		add_for_name(x, l, o->p[i].name, &value);
		buf_clear(&text);
		buf_add_json(&text, str_of(o->p[i].name));
		grammar_part key = grammar_build_lit(x->b, buf_str(&text));
		o->p[i].part = seq(x, key, x->colon, schema_part(x, &value));
	}
	buf_deinit(&text);
}

/* --- further properties -------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_plain(uint32_t cp)
{
	return cp >= 0x20 && cp != '"' && cp != '\\';
}

/* The rest of a name and its quote, where the first `at` bytes are those of the n
 * sorted names and it must become none of them. No escapes: they could spell one. */
static grammar_part other_name(struct schema_reader *x, const char *const *names,
			       size_t n, size_t at, int depth)
{
	static const struct grammar_range special[] = {{0, 0x1F}, {'"', '"'},
						       {'\\', '\\'}};
	struct grammar_range *not = xmalloc((n + 3) * sizeof *not);
	struct grammar_parts alts = {0};
	size_t n_not = 3, i = 0;
	memcpy(not, special, sizeof special);
	if (n > 0 && names[0][at] == '\0')
		i = 1; /* it would be that name */
	else
		grammar_parts_add(&alts, lit(x, "\""));
	while (i < n) {
		uint32_t cp;
		size_t len = utf8_decode(str_of(names[i] + at), &cp), end = i + 1;
		while (end < n && strncmp(names[end] + at, names[i] + at, len) == 0)
			end++;
		not[n_not++] = (struct grammar_range){cp, cp};
		if (is_plain(cp) && depth < MAX_NAME) {
			grammar_part c = grammar_build_lit(
				x->b, (struct str){names[i] + at, len});
			grammar_part pair[2] = {
				c, other_name(x, names + i, end - i, at + len,
					      depth + 1)};
			grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
		}
		i = end;
	}
	grammar_part plain = grammar_build_class(x->b, special, 3, true);
	grammar_part first = grammar_build_class(x->b, not, n_not, true);
	grammar_parts_add(&alts,
			  seq(x, first, grammar_build_repeat(x->b, plain, 0,
							     GRAMMAR_NO_MAX),
			      lit(x, "\"")));
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	free(not);
	return out;
}

static grammar_part further_name(struct schema_reader *x, const struct object *o)
{
	const char **names = xmalloc((o->n + 1) * sizeof *names);
	for (size_t i = 0; i < o->n; i++)
		names[i] = o->p[i].name;
	qsort(names, o->n, sizeof *names, by_name);
	grammar_part pair[2] = {lit(x, "\""), other_name(x, names, o->n, 0, 0)};
	free(names);
	return o->n ? grammar_build_seq(x->b, pair, 2) : schema_any_string(x);
}

/* Is there room for names that no schema has? Only where one says so, or none says
 * anything of properties. */
static bool is_open(struct schema_reader *x, const struct schema_list *l, size_t n)
{
	bool open = n == 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct json_node *other =
			schema_get(x, l->p[i].at, "additionalProperties");
		const struct json_node *rest =
			schema_get(x, l->p[i].at, "unevaluatedProperties");
		if (rest->v && !json_is_false(rest->v))
			schema_refuse(x, rest, "is not supported unless it is false");
		open |= other->v && !json_is_false(other->v);
	}
	for (size_t i = 0; i < l->n; i++)
		open &= !json_is_false(json_object_get(l->p[i].at->v,
						       "unevaluatedProperties")) &&
			!json_is_false(json_object_get(l->p[i].at->v,
						       "additionalProperties"));
	return open;
}

/* How many: a name could be written twice, so a minimum of several further ones
 * cannot be held to. */
static void read_counts(struct schema_reader *x, const struct schema_list *l,
			struct object *o)
{
	int64_t min = 0, max = GRAMMAR_NO_MAX;
	schema_read_min(x, l, "minProperties", &min);
	schema_read_max(x, l, "maxProperties", &max);
	if (min > MAX((int64_t)o->n_required, 1))
		schema_refuse(x, l->p[0].at, "uses \"minProperties\" above one and the "
			      "number of required ones, which is not supported");
	if (max < (int64_t)o->n && max >= (int64_t)o->n_required)
		schema_refuse(x, l->p[0].at, "uses \"maxProperties\" below the number "
			      "of its properties, which is not supported");
	o->min_all = min;
	o->max = max == GRAMMAR_NO_MAX ? max : MAX(max - (int64_t)o->n, 0);
	if (max < (int64_t)o->n_required || o->max == 0)
		o->is_open = false;
}

/* --- objects ------------------------------------------------------------- */

static grammar_part with_comma(struct schema_reader *x, grammar_part part)
{
	grammar_part pair[2] = {x->comma, part};
	return grammar_build_seq(x->b, pair, 2);
}

/* Properties i.. behind another one. Rules, so that all which begin an object share
 * them; a tail of plain required ones is cheap anyway. */
static grammar_part *make_tails(struct schema_reader *x, const struct object *o)
{
	grammar_part *tails = xmalloc((o->n + 1) * sizeof *tails);
	tails[o->n] = lit(x, "");
	if (o->is_open)
		tails[o->n] = grammar_build_repeat(x->b, with_comma(x, o->further), 0,
						   rule_count(o->max));
	for (size_t i = o->n; i-- > 1;) {
		grammar_part here = with_comma(x, o->p[i].part);
		if (!o->p[i].is_required)
			here = grammar_build_opt(x->b, here);
		grammar_part pair[2] = {here, tails[i + 1]};
		uint32_t rule = grammar_build_rule(x->b, STR("properties"));
		grammar_build_set_rule(x->b, rule, grammar_build_seq(x->b, pair, 2));
		tails[i] = grammar_build_ref(x->b, rule);
	}
	return tails;
}

/* What may stand between the braces. */
static grammar_part members(struct schema_reader *x, const struct object *o)
{
	struct grammar_parts alts = {0};
	grammar_part *tails = make_tails(x, o);
	size_t i = 0;
	for (bool is_last = false; i < o->n && !is_last; i++) {
		grammar_part pair[2] = {o->p[i].part, tails[i + 1]};
		grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
		is_last = o->p[i].is_required;
	}
	if (o->n_required == 0 && o->is_open) {
		grammar_part pair[2] = {
			o->further,
			grammar_build_repeat(x->b, with_comma(x, o->further), 0,
					     less(o->max, 1))};
		grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
	}
	if (o->n_required == 0 && o->min_all == 0)
		grammar_parts_add(&alts, lit(x, ""));
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	free(tails);
	return out;
}

void schema_each_property(struct schema_reader *x, const struct schema_list *l,
			  schema_property_fn fn, void *ctx)
{
	struct object o = {0};
	strmap_init(&o.index, 16);
	read_names(x, l, &o);
	if (x->st == OK)
		read_counts(x, l, &o);
	for (size_t i = 0; i < o.n && x->st == OK; i++) {
		struct schema_list value = {0};
		add_for_name(x, l, o.p[i].name, &value);
		fn(ctx, o.p[i].name, o.p[i].is_required, &value);
	}
	strmap_deinit(&o.index);
	free(o.p);
}

grammar_part schema_object(struct schema_reader *x, const struct schema_list *l)
{
	struct object o = {0};
	strmap_init(&o.index, 16);
	read_names(x, l, &o);
	o.is_open = x->st == OK && is_open(x, l, o.n);
	grammar_part out = 0;
	if (x->st == OK)
		read_counts(x, l, &o);
	if (x->st == OK)
		read_properties(x, l, &o);
	if (x->st == OK && o.is_open) {
		struct schema_list value = {0};
		add_for_name(x, l, NULL, &value);
		o.further = seq(x, further_name(x, &o), x->colon,
				schema_part(x, &value));
	}
	if (x->st == OK)
		out = seq(x, lit(x, "{"), members(x, &o), lit(x, "}"));
	strmap_deinit(&o.index);
	free(o.p);
	return out;
}
