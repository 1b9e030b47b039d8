/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Schema (draft 2020-12) to a grammar of the documents that match it. Thread:
 * any.
 *
 * What is written is always valid; what is valid cannot always be written. Objects
 * have their properties in the schema's order, further ones only where the schema
 * says so; one space may stand behind a comma and a colon, and white space
 * nowhere else. A keyword that cannot be held to is E_INVAL with the path of the
 * schema that has it: nothing is ever left out in silence.
 */
#pragma once
#include "api/json_read.h"
#include "text/grammar.h"

enum status schema_grammar(const struct json_node *at, struct grammar **out,
			   struct fail *fail) MUST_USE;
/* Any JSON object. */
enum status schema_grammar_object(struct grammar **out, struct fail *fail) MUST_USE;
