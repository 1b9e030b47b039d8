/* SPDX-License-Identifier: Apache-2.0
 *
 * Additional properties of an object, whose names no schema lists: `"name": value`. Without
 * patterns, the name is compared character by character with the known names. With
 * patternProperties or propertyNames the names are languages. For each set of patterns
 * there is the language of names that match exactly these patterns, with the schemas of
 * exactly these patterns for the value.
 */
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"
#include "base/utf8.h"

#define MAX_NAME 200  /* depth in characters to which a name is compared with the known ones */
#define MAX_SUBSETS 4 /* number of patterns up to which all combinations are tried */
#define MAX_PATTERNS 60

/* --- any other name ------------------------------------------------------------ */

static bool is_plain(const struct schema_reader *x, uint32_t cp)
{
	if (x->relaxed)
		return schema_relaxed_is_in_keys(cp);
	return cp >= 0x20 && cp != '"' && cp != '\\';
}

/* The rest of an additional name and its closing quote; a relaxed object's name has no quote. The
 * name's first `at` bytes equal those of the n sorted names, and it must not become one of
 * them. It has no escapes, because an escape could spell a known name. */
static grammar_part other_name(struct schema_reader *x, const char *const *names,
			       size_t n, size_t at, int depth)
{
	static const struct grammar_range in_json[] = {{0, 0x1F}, {'"', '"'},
						       {'\\', '\\'}};
	const struct grammar_range *special = x->relaxed ? schema_relaxed_not_in_keys() : in_json;
	const size_t n_special = x->relaxed ? SCHEMA_RELAXED_RANGES : ARRAY_LEN(in_json);
	const char *quote = x->relaxed ? "" : "\"";
	struct grammar_range *not = xmalloc((n + n_special) * sizeof *not);
	struct grammar_parts alts = {0};
	size_t n_not = n_special, i = 0;
	memcpy(not, special, n_special * sizeof *not);
	if (n > 0 && names[0][at] == '\0')
		i = 1; /* ending here would spell this known name */
	else if (!x->relaxed || at > 0)
		grammar_parts_add(&alts, lit(x, quote));
	while (i < n) {
		uint32_t cp;
		size_t len = utf8_decode(str_of(names[i] + at), &cp), end = i + 1;
		while (end < n && strncmp(names[end] + at, names[i] + at, len) == 0)
			end++;
		not[n_not++] = (struct grammar_range){cp, cp};
		if (is_plain(x, cp) && depth < MAX_NAME) {
			grammar_part c = grammar_build_lit(
				x->b, (struct str){names[i] + at, len});
			grammar_part pair[2] = {
				c, other_name(x, names + i, end - i, at + len,
					      depth + 1)};
			grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
		}
		i = end;
	}
	grammar_part plain = grammar_build_class(x->b, special, n_special, true);
	grammar_part first = grammar_build_class(x->b, not, n_not, true);
	grammar_parts_add(&alts,
			  seq(x, first, grammar_build_repeat(x->b, plain, 0,
							     GRAMMAR_NO_MAX),
			      lit(x, quote)));
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	free(not);
	return out;
}

static grammar_part additional_name(struct schema_reader *x, const char *const *names,
				 size_t n)
{
	if (!n && x->relaxed)
		return schema_relaxed_any_key(x);
	grammar_part pair[2] = {lit(x, x->relaxed ? "" : "\""),
				other_name(x, names, n, 0, 0)};
	return n ? grammar_build_seq(x->b, pair, 2) : schema_any_string(x);
}

/* --- by pattern ------------------------------------------------------------------ */

struct schema_pattern {
	const char *text;
	lang l;
};

struct patterns {
	struct schema_pattern p[MAX_PATTERNS];
	size_t n;
	lang allowed; /* names that propertyNames permits, without the known names */
};

static void read_patterns(struct schema_reader *x, const struct schema_item *of,
			  struct patterns *out)
{
	const struct json_node *at = schema_get(x, of->at, "patternProperties");
	const char *key;
	json_t *v;
	schema_check(x, json_read_object(at, x->fail));
	if (x->st != OK || !at->v)
		return;
	json_object_foreach((json_t *)at->v, key, v) {
		json_t *text = json_string(key);
		const struct json_node name = {.v = text, .up = at, .key = key};
		lang l = LANG_NONE;
		bool is_known = !schema_pattern(x, &name, &l);
		json_decref(text);
		for (size_t i = 0; i < out->n; i++)
			is_known |= out->p[i].l == l;
		if (out->n == MAX_PATTERNS)
			schema_refuse(x, at, "makes more than %d patterns of one object",
				      MAX_PATTERNS);
		else if (!is_known)
			out->p[out->n++] = (struct schema_pattern){key, l};
	}
}

/* Is any of this schema's patterns among `bits`? Adds the schemas of all such patterns to
 * `out`, if not NULL. */
static bool add_matched(struct schema_reader *x, const struct schema_item *of,
			const struct patterns *p, uint64_t bits, struct schema_list *out)
{
	const struct json_node *at = schema_get(x, of->at, "patternProperties");
	bool is_matched = false;
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)at->v, key, v) {
		uint32_t l = LANG_NONE;
		strmap_get(&x->regexes, str_of(key), &l);
		for (size_t i = 0; i < p->n; i++) {
			if (p->p[i].l != l || !(bits >> i & 1))
				continue;
			is_matched = true;
			if (out)
				schema_add(x, out, schema_get(x, at, key));
		}
	}
	return is_matched;
}

static bool is_evaluated(struct schema_reader *x, const struct schema_list *l, size_t above,
			 const struct patterns *p, uint64_t bits)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *v = l->p[i].at->v;
		if (!l->p[i].is_silent && schema_is_below(l, i, above) &&
		    (json_object_get(v, "additionalProperties") ||
		     (i != above && json_object_get(v, "unevaluatedProperties")) ||
		     add_matched(x, &l->p[i], p, bits, NULL)))
			return true;
	}
	return false;
}

/* Adds the constraints on values whose names match exactly the patterns in `bits`. */
static void add_values(struct schema_reader *x, const struct schema_list *l,
		       const struct patterns *p, uint64_t bits, struct schema_list *out)
{
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *at = l->p[i].at;
		const struct json_node *other = schema_get(x, at, "additionalProperties");
		const struct json_node *rest = schema_get(x, at, "unevaluatedProperties");
		bool is_own = add_matched(x, &l->p[i], p, bits, out);
		if (!is_own && other->v)
			schema_add(x, out, other);
		if (rest->v && !is_evaluated(x, l, i, p, bits))
			schema_add(x, out, rest);
	}
}

static void add_members(struct schema_reader *x, const struct schema_list *l,
			const struct patterns *p, uint64_t bits,
			struct grammar_parts *alts)
{
	struct schema_list value = {0};
	lang names = p->allowed;
	add_values(x, l, p, bits, &value);
	for (size_t i = 0; i < p->n && !value.is_never; i++)
		names = lang_and(x->langs, names,
				 bits >> i & 1 ? p->p[i].l
					       : lang_not(x->langs, p->p[i].l));
	if (value.is_never || names == LANG_NONE || x->st != OK)
		return;
	grammar_part name = schema_quoted(x, l->p[0].at, names);
	grammar_parts_add(alts, seq(x, name, x->colon, schema_part(x, &value)));
}

static bool additional_by_pattern(struct schema_reader *x, const struct schema_list *l,
			       struct patterns *p, bool is_open, grammar_part *out)
{
	struct grammar_parts alts = {0};
	size_t n_subsets = p->n <= MAX_SUBSETS ? (size_t)1 << p->n : p->n + 1;
	for (size_t i = !is_open; i < n_subsets && x->st == OK; i++) {
		uint64_t bits = p->n <= MAX_SUBSETS ? i : i ? (uint64_t)1 << (i - 1) : 0;
		add_members(x, l, p, bits, &alts);
	}
	*out = grammar_build_alt(x->b, alts.p, alts.n);
	bool has = alts.n > 0;
	free(alts.p);
	return has;
}

/* --- the whole --------------------------------------------------------------------- */

static lang known_names(struct schema_reader *x, const char *const *names, size_t n)
{
	lang *of = xmalloc((n + 1) * sizeof *of);
	for (size_t i = 0; i < n; i++)
		of[i] = lang_text(x->langs, str_of(names[i]));
	lang out = lang_alt_of(x->langs, of, n);
	free(of);
	return out;
}

/* Reads the patterns of all schemas, and narrows p->allowed by their propertyNames. True: one
 * has propertyNames. */
static bool read_names(struct schema_reader *x, const struct schema_list *l, struct patterns *p)
{
	bool has_names = false;
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *of = schema_get(x, l->p[i].at, "propertyNames");
		read_patterns(x, &l->p[i], p);
		if (x->st != OK || !of->v)
			continue;
		has_names = true;
		p->allowed = lang_and(x->langs, p->allowed, schema_names(x, of));
	}
	return has_names;
}

lang schema_additional_names(struct schema_reader *x, const struct schema_list *l, bool is_open)
{
	struct patterns p = {.allowed = LANG_ANY};
	lang of[MAX_PATTERNS];
	read_names(x, l, &p);
	for (size_t i = 0; i < p.n; i++)
		of[i] = p.p[i].l;
	return is_open ? p.allowed
		       : lang_and(x->langs, p.allowed, lang_alt_of(x->langs, of, p.n));
}

bool schema_additional(struct schema_reader *x, const struct schema_list *l,
		    const char *const *names, size_t n, bool is_open, lang among,
		    grammar_part *out)
{
	struct patterns p = {.allowed = among};
	bool has_names = read_names(x, l, &p) || among != LANG_ANY;
	if (x->st != OK)
		return false;
	if (has_names || p.n > 0) {
		if (n > 0)
			p.allowed = lang_and(x->langs, p.allowed,
					     lang_not(x->langs, known_names(x, names, n)));
		return additional_by_pattern(x, l, &p, is_open, out);
	}
	struct schema_list value = {0};
	add_values(x, l, &p, 0, &value);
	if (!is_open || value.is_never || x->st != OK)
		return false;
	*out = seq(x, additional_name(x, names, n), x->colon, schema_part(x, &value));
	return true;
}
