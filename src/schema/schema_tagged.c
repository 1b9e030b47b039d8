/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects whose properties stand one by one between tags, as some models write the
 * arguments of a call:
 *
 *   <parameter=name>
 *   value
 *   </parameter>
 *
 * A string is written as bare text up to the closing tag. If the schema constrains the
 * string further, it must not contain the tag's first character ("<") at all. All other
 * values are JSON.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "schema/schema_private.h"

#define MAX_END 32 /* maximal bytes of the text that ends a value */

/* State k has read the first k bytes of `end`, which are whole characters. Its first byte does
 * not occur again in it, so that byte leads to state 1 from every state.
 *
 *   0   any text, then the first byte  ──► 1
 *   k   the character there ──► behind it;  the first byte ──► 1;  any other ──► 0
 *
 * If the end is a special token, it may come in any state. Text that spells `end` is then
 * forbidden, because a reader could not tell it from the token. */
static grammar_part state_part(struct grammar_build *b, const struct schema_tags *tags,
			       const uint32_t *states, size_t n, size_t k)
{
	const char *end = tags->end;
	uint32_t here;
	size_t width = utf8_decode((struct str){end + k, n - k}, &here);
	const struct grammar_range taken[2] = {{(uint8_t)end[0], (uint8_t)end[0]},
					       {here, here}};
	grammar_part other = grammar_build_class(b, taken, 2, true);
	grammar_part anew[2] = {grammar_build_lit(b, (struct str){end, 1}),
				grammar_build_ref(b, states[1])};
	grammar_part alts[4];
	size_t n_alts = 0;
	alts[n_alts++] = grammar_build_seq(b, anew, 2);
	if (tags->is_special)
		alts[n_alts++] = tags->value_end;
	if (k == 0) {
		grammar_part pair[2] = {
			grammar_build_repeat(b, other, 0, GRAMMAR_NO_MAX),
			grammar_build_alt(b, alts, n_alts)};
		return grammar_build_seq(b, pair, 2);
	}
	grammar_part back[2] = {other, grammar_build_ref(b, states[0])};
	alts[n_alts++] = grammar_build_seq(b, back, 2);
	grammar_part same = grammar_build_lit(b, (struct str){end + k, width});
	if (k + width < n) {
		grammar_part on[2] = {same, grammar_build_ref(b, states[k + width])};
		alts[n_alts++] = grammar_build_seq(b, on, 2);
	} else if (!tags->is_special) {
		alts[n_alts++] = same;
	}
	return grammar_build_alt(b, alts, n_alts);
}

grammar_part schema_tagged_text(struct grammar_build *b, const struct schema_tags *tags)
{
	uint32_t states[MAX_END];
	size_t n = strlen(tags->end);
	assert(n >= 2 && n <= MAX_END);
	for (size_t k = 0; k < n; k++)
		states[k] = grammar_build_rule(b, STR("text of a parameter"));
	for (size_t k = 0; k < n; k++) /* states within a character stay unused */
		grammar_build_set_rule(b, states[k],
				       ((uint8_t)tags->end[k] & 0xC0) == 0x80
					       ? grammar_build_lit(b, STR(""))
					       : state_part(b, tags, states, n, k));
	return grammar_build_ref(b, states[0]);
}

static grammar_part newline_part(struct grammar_build *b)
{
	return grammar_build_opt(b, grammar_build_lit(b, STR("\n")));
}

/* --- values -------------------------------------------------------------- */

struct tagged {
	struct schema_reader *x;
	const struct schema_tags *tags;
	struct grammar_parts parts;
};

/* One of the texts, with an optional newline on both sides. Texts that contain `end` are
 * left out. */
static grammar_part choice(struct tagged *t, struct str *texts, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (str_find(texts[i], str_of(t->tags->end), 0) < 0)
			texts[kept++] = texts[i];
	return grammar_build_choice(t->x->b, texts, kept);
}

/* True if the reader of the answer will take this value as bare text. The reader looks
 * only at the tool's own properties. */
static bool is_text(const struct tagged *t, const char *name)
{
	const json_t *own = json_object_get(
		json_object_get(t->x->root.v, "properties"), name);
	return own && t->tags->is_text(own);
}

/* A value followed by its end. */
static grammar_part value_part(struct tagged *t, const char *name,
			       struct schema_list *l)
{
	struct grammar_build *b = t->x->b;
	struct str *texts;
	size_t n;
	bool is_free = false;
	grammar_part value = 0;
	if (!is_text(t, name))
		value = schema_part(t->x, l);
	else if (schema_texts(t->x, l, &texts, &n))
		value = choice(t, texts, n);
	else if (schema_has_branches(l))
		schema_refuse(t->x, l->p[0].at, "uses \"anyOf\", \"oneOf\" or the like "
			      "for a string, which is not supported with this model's "
			      "calls");
	else
		value = schema_bare_string(t->x, l, t->tags->end[0], &is_free);
	if (is_free)
		return schema_tagged_text(b, t->tags);
	grammar_part newline =
		t->tags->strips_newlines ? newline_part(b) : grammar_build_lit(b, STR(""));
	grammar_part around[4] = {newline, value, newline, t->tags->value_end};
	return grammar_build_seq(b, around, 4);
}

static void add_property(void *ctx, const char *name, bool is_required,
			 struct schema_list *value)
{
	struct tagged *t = ctx;
	struct grammar_build *b = t->x->b;
	if (str_find(str_of(name), STR("<"), 0) >= 0 ||
	    str_find(str_of(name), STR(">"), 0) >= 0) {
		if (is_required)
			schema_refuse(t->x, &t->x->root, "requires a property with < "
				      "or > in its name, which this model's calls "
				      "cannot have");
		return;
	}
	grammar_part whole[5] = {t->tags->before_key, grammar_build_lit(b, str_of(name)),
				 is_text(t, name) ? t->tags->before_text
						  : t->tags->before_value,
				 value_part(t, name, value),
				 newline_part(b)};
	grammar_part part = grammar_build_seq(b, whole, 5);
	grammar_parts_add(&t->parts, is_required ? part : grammar_build_opt(b, part));
}

void schema_check_arguments(struct schema_reader *x, const struct schema_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct schema_list one = {.p = &l->p[i], .n = 1, .cap = 1};
		const json_t *v = l->p[i].at->v;
		if (schema_has_branches(&one) || json_object_get(v, "enum") ||
		    json_object_get(v, "const"))
			schema_refuse(x, l->p[i].at, "uses \"anyOf\", \"oneOf\" or the "
				      "like for all of the arguments, which is not "
				      "supported with this model's calls");
	}
	if (x->st == OK && !(schema_types(x, l) & TYPE_OBJECT))
		schema_refuse(x, &x->root, "must be of type object");
}

grammar_part schema_tagged(struct schema_reader *x, const struct schema_list *l,
			   const struct schema_tags *tags)
{
	struct tagged t = {x, tags, {0}};
	grammar_part out = 0;
	schema_check_arguments(x, l);
	if (x->st == OK)
		schema_each_property(x, l, add_property, &t);
	if (x->st == OK)
		out = grammar_build_seq(x->b, t.parts.p, t.parts.n);
	free(t.parts.p);
	return out;
}
