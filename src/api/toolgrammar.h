/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools to the grammar of their calls, in the words of the model's format. Thread: any.
 *
 * The arguments of a tool are held to its schema when the call is forced, when the tool
 * is `strict`, or by the setting strict_tools, but not where it says `strict`: false; else
 * they are any JSON object. A schema that cannot be held to is E_INVAL with its
 * path; only one that the setting alone asks for is let go.
 */
#pragma once
#include "api/tools.h"
#include "grammar/grammar.h"

/* All of an answer that must be a call, or several: of t->forced or of any tool. What the
 * prompt has already written of it is *out_begun, to be accepted first. */
enum status toolgrammar_forced(const struct api *api, const struct json_node *tools,
			       const struct tools *t, struct str begun, struct arena *a,
			       struct grammar **out, struct str *out_begun,
			       struct fail *fail) MUST_USE;
/* One call, first or not. *out NULL: there is nothing to hold one to. is_needed: also
 * where no tool is held to its schema. */
enum status toolgrammar_call(const struct api *api, const struct json_node *tools,
			     const struct tools *t, bool is_needed,
			     struct grammar **out, struct fail *fail) MUST_USE;

/* The special tokens of t that stand in the words of f (NULL: none), into arena a. */
void toolgrammar_find_specials(const struct tokenizer *t, const struct tool_format *f,
			       struct arena *a, struct toolgrammar_specials *out);
