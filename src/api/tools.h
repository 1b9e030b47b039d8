/* SPDX-License-Identifier: Apache-2.0
 *
 * tools, tool_choice and parallel_tool_calls of a chat call. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* What a tool says of holding its arguments to its schema. */
enum tools_strict { STRICT_UNSAID, STRICT_NO, STRICT_YES };

struct tools {
	bool are_shown;        /* to the template */
	bool has_special_tags; /* calls are told by tokens that are special */
	struct toolparse_opts parse;
	const enum tools_strict *strict; /* (parse.n_tools) */
	bool is_forced;            /* the answer must be a call */
	struct str forced;         /* of this tool; p NULL: of any */
};

/* Into arena a. E_INVAL with the path. */
enum status tools_read(const struct json_node *body, const struct api *api,
		       struct arena *a, struct tools *out,
		       struct fail *fail) MUST_USE;

/* Chooses the format in which a model writes calls. name is the setting's value; "auto" or
 * NULL: recognise the format from the template. *out is NULL for "none", and where the
 * template shows no known format. E_CONFIG: the name is not known. */
enum status tools_choose_format(const char *name, const char *chat_template,
				const struct tool_format **out,
				struct fail *fail) MUST_USE;

/* Is a parameter of this schema a string, whatever its value looks like? Where a format
 * does not tell. */
bool tools_is_string(const json_t *schema);

/* Append the opening of the forced call: the model goes on from there, and the parser
 * learns of it. */
void tools_add_opening(const struct tools *t, const struct tool_format *f,
		       struct arena *a, struct outparse_opts *o,
		       struct marked *prompt);
