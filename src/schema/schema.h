/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a JSON Schema (draft 2020-12) into a grammar of matching documents. Thread: any.
 *
 * Every document that the grammar permits is valid. Not every valid document can be
 * written. Objects have their properties in the schema's order, and additional properties
 * only if the schema asks for them. One space may follow a comma and a colon; there is no
 * other white space.
 *
 * A keyword that cannot be enforced fails with E_INVAL and the path of its schema: no
 * constraint is dropped silently. Keywords and formats that the standard does not know
 * are ignored, as the standard says.
 */
#pragma once
#include "json/json_read.h"
#include "grammar/grammar_build.h"

/* Sets the function that is told once of each ignored keyword; NULL: none. Call it at
 * start, before any schema is read. Any thread may call `tell`. */
void schema_set_on_ignored(void (*tell)(const char *keyword));

enum status schema_grammar(const struct json_node *at, struct grammar **out,
			   struct fail *fail) MUST_USE;
/* A grammar of any JSON object. */
enum status schema_grammar_object(struct grammar **out, struct fail *fail) MUST_USE;

/* Builds the schema as a part of a larger grammar. at->v NULL: any JSON object.
 * is_object: permits objects only, even if the schema permits more. *io_work: work done
 * for the schemas of one request so far; it starts at 0 and is limited for all of them
 * together (E_LIMIT). */
enum status schema_build(struct grammar_build *b, const struct json_node *at,
			 bool is_object, size_t *io_work, grammar_part *out,
			 struct fail *fail) MUST_USE;

/* Objects with bare keys, and strings between marks (output/relaxedjson.h). */
struct schema_relaxed {
	struct str mark;  /* as a grammar spells it */
	const char *text; /* the mark's text: 2 to 32 bytes; the first must not occur again */
};
/* As schema_build, for such an object. `relaxed` must outlive the call. */
enum status schema_build_relaxed(struct grammar_build *b, const struct json_node *at,
			       const struct schema_relaxed *relaxed, size_t *io_work,
			       grammar_part *out, struct fail *fail) MUST_USE;

/* As schema_build, for the keyword arguments of a call in Python (output/pyargs.h),
 * without the parentheses. Properties whose names are not Python's are left out, and
 * additional properties are written only if the schema names none. */
enum status schema_build_python(struct grammar_build *b, const struct json_node *at,
				size_t *io_work, grammar_part *out,
				struct fail *fail) MUST_USE;

/* The form of an object whose properties are written one by one between tags. Strings for
 * which `is_text` returns true are written as bare text, without quotes. Additional
 * properties are not written. */
struct schema_tags {
	grammar_part before_key, before_value, before_text; /* the last: of strings */
	grammar_part value_end; /* part that ends a value; its text is `end` */
	const char *end;        /* 2 to 32 bytes; the first byte must not occur again in it */
	bool is_special;        /* value_end is a special token */
	bool strips_newlines;   /* one newline at each end of a value is not part of the value */
	bool (*is_text)(const json_t *schema);
};
enum status schema_build_tagged(struct grammar_build *b, const struct json_node *at,
				const struct schema_tags *tags, size_t *io_work,
				grammar_part *out, struct fail *fail) MUST_USE;
/* Any text up to and including value_end. The text does not contain `end` before that. */
grammar_part schema_tagged_text(struct grammar_build *b, const struct schema_tags *tags);
