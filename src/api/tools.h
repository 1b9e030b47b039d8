/* SPDX-License-Identifier: Apache-2.0
 *
 * tools, tool_choice and parallel_tool_calls of a chat call. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "api/json_read.h"

struct tools {
	struct jinja_value *shown; /* for the template; NULL: none */
	bool is_forced;            /* the answer must be a call */
	struct str forced;         /* of this tool; p NULL: of any */
};

/* Values in scratch; what the parser needs goes into the call's request, format
 * included. E_INVAL with the path. */
enum status tools_read(const struct json_node *body, struct api_call *c,
		       struct arena *scratch, struct tools *out,
		       struct fail *fail) MUST_USE;

/* The format a model writes calls in. name: as in the configuration, "auto" (or NULL)
 * looks at the template; NULL comes of "none", and of a template that has none.
 * E_CONFIG for a name that is not known. */
enum status tools_choose_format(const char *name, const char *chat_template,
				const struct tool_format **out,
				struct fail *fail) MUST_USE;

/* Append the opening of the forced call: the model goes on from there. It is what a
 * grammar over the tool's schema will start behind. */
void tools_add_opening(const struct tools *t, struct api_call *c,
		       struct marked *prompt);
