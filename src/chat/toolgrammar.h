/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the grammar of tool calls, in the words of the model's format. Thread: any.
 *
 * A call's arguments follow the tool's schema in three cases: the call is forced, the
 * tool has `strict`: true, or the setting strict_tools is on and the tool does not have
 * `strict`: false. Otherwise they are any JSON object. A schema that halod cannot keep
 * is E_INVAL with its path, unless only strict_tools asked for it; then any JSON object
 * is allowed.
 */
#pragma once
#include "chat/tools.h"
#include "grammar/grammar.h"

/* The grammar of a whole answer that must be one or several calls: of t->forced, or of any
 * tool. *out_begun is the part of it that the prompt has already written: the caller has
 * the grammar accept it first. */
enum status toolgrammar_forced(const struct chat_model *m, const struct json_node *tools,
			       const struct tools *t, struct str begun, struct arena *a,
			       struct grammar **out, struct str *out_begun,
			       struct fail *fail) MUST_USE;
/* The grammar of one call, the answer's first or a later one. *out NULL: no tool is held to
 * its schema; with is_needed a grammar is made even then. */
enum status toolgrammar_call(const struct chat_model *m, const struct json_node *tools,
			     const struct tools *t, bool is_needed,
			     struct grammar **out, struct fail *fail) MUST_USE;

/* Finds the special tokens of t in the tags of f (NULL: none); into arena a. */
void toolgrammar_find_specials(const struct tokenizer *t, const struct tool_format *f,
			       struct arena *a, struct toolgrammar_specials *out);
