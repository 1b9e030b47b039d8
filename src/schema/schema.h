/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Schema (draft 2020-12) to a grammar of the documents that match it. Thread:
 * any.
 *
 * What is written is always valid; what is valid cannot always be written. Objects
 * have their properties in the schema's order, further ones only where the schema
 * says so; one space may stand behind a comma and a colon, and white space
 * nowhere else. A keyword that cannot be held to is E_INVAL with the path of the
 * schema that has it: nothing is ever left out in silence. Keywords and formats that
 * the standard does not know are ignored, as it says.
 */
#pragma once
#include "json/json_read.h"
#include "grammar/grammar_build.h"

/* From now on, tell of each ignored keyword once; NULL: do not. At start, before any
 * schema is read; `tell` may be called by any thread. */
void schema_set_on_ignored(void (*tell)(const char *keyword));

enum status schema_grammar(const struct json_node *at, struct grammar **out,
			   struct fail *fail) MUST_USE;
/* Any JSON object. */
enum status schema_grammar_object(struct grammar **out, struct fail *fail) MUST_USE;

/* The same as a part of a larger grammar. at->v NULL: any JSON object. is_object: of what
 * the schema allows, objects only. *io_work: what the schemas of one request have cost, from
 * 0; it is bounded for all of them together (E_LIMIT). */
enum status schema_build(struct grammar_build *b, const struct json_node *at,
			 bool is_object, size_t *io_work, grammar_part *out,
			 struct fail *fail) MUST_USE;

/* An object whose properties are written one by one between tags, strings as their bare
 * text: those that `is_text` says are read so. Further properties are not written. */
struct schema_tags {
	grammar_part before_key, before_value;
	grammar_part value_end; /* what ends a value, spelled as `end` is */
	const char *end;        /* 2 to 32 bytes; the first does not come again */
	bool is_special;        /* value_end is a special token */
	bool strips_newlines;   /* one at each end of a value is not part of it */
	bool (*is_text)(const json_t *schema);
};
enum status schema_build_tagged(struct grammar_build *b, const struct json_node *at,
				const struct schema_tags *tags, size_t *io_work,
				grammar_part *out, struct fail *fail) MUST_USE;
/* Any text up to and with value_end; end is spelled in value_end. */
grammar_part schema_tagged_text(struct grammar_build *b, const struct schema_tags *tags);
