/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of relaxed objects, which output/relaxedjson.h reads: keys without quotes, and
 * strings between two marks without escapes. The rest is as in JSON.
 *
 * A string that the schema limits does not contain the mark's first character at all. No
 * other string contains the mark.
 */
#include "schema/schema_private.h"

/* What a key without quotes does not contain. */
static const struct grammar_range not_in_keys[SCHEMA_RELAXED_RANGES] = {
	{0, '#'}, {'%', ','}, {'/', '/'}, {':', '@'}, {'[', '^'}, {'`', '`'}, {'{', 0x10FFFF}};

const struct grammar_range *schema_relaxed_not_in_keys(void) { return not_in_keys; }

bool schema_relaxed_is_in_keys(uint32_t cp)
{
	for (size_t i = 0; i < SCHEMA_RELAXED_RANGES; i++)
		if (cp >= not_in_keys[i].lo && cp <= not_in_keys[i].hi)
			return false;
	return true;
}

bool schema_relaxed_add_string(const struct schema_relaxed *l, struct str text, struct buf *out)
{
	buf_add_str(out, l->mark);
	buf_add_str(out, text);
	buf_add_str(out, l->mark);
	return str_find(text, str_of(l->text), 0) < 0;
}

bool schema_relaxed_add_key(const struct schema_relaxed *l, struct str name, struct buf *out)
{
	bool is_bare = name.n > 0;
	for (size_t i = 0; i < name.n; i++)
		is_bare &= schema_relaxed_is_in_keys((uint8_t)name.p[i]);
	if (!is_bare)
		return schema_relaxed_add_string(l, name, out);
	buf_add_str(out, name);
	return true;
}

grammar_part schema_relaxed_chars(struct schema_reader *x, uint32_t min, uint32_t max)
{
	uint8_t first = (uint8_t)x->relaxed->text[0];
	const struct grammar_range not[2] = {{0, 0}, {first, first}};
	return grammar_build_repeat(x->b, grammar_build_class(x->b, not, 2, true), min, max);
}

grammar_part schema_relaxed_text(struct schema_reader *x)
{
	const struct schema_relaxed *l = x->relaxed;
	grammar_part mark = grammar_build_lit(x->b, l->mark);
	const struct schema_tags tags = {.value_end = mark, .end = l->text,
					 .is_special = l->mark.n != strlen(l->text)};
	grammar_part pair[2] = {mark, schema_tagged_text(x->b, &tags)};
	return grammar_build_seq(x->b, pair, 2);
}

grammar_part schema_relaxed_any_key(struct schema_reader *x)
{
	return grammar_build_repeat(
		x->b, grammar_build_class(x->b, not_in_keys, SCHEMA_RELAXED_RANGES, true), 1,
		200);
}
