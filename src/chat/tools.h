/* SPDX-License-Identifier: Apache-2.0
 *
 * tools, tool_choice and parallel_tool_calls of a chat call. Thread: any.
 */
#pragma once
#include "chat/chat_model.h"
#include "output/outparse.h"
#include "json/json_read.h"

/* What a tool's `strict` says: are its arguments held to its schema? */
enum tools_strict { STRICT_UNSAID, STRICT_NO, STRICT_YES };

struct tools {
	bool are_shown;        /* the template gets the tools */
	bool has_special_tags; /* some tags of the calls' format are special tokens */
	struct toolparse_opts parse;
	const enum tools_strict *strict; /* (parse.n_tools) */
	bool is_forced;            /* the answer must be a call */
	struct str forced;         /* the tool to call, where is_forced; p NULL: any */
};

/* Reads the tools into arena a. E_INVAL with the path. */
enum status tools_read(const struct json_node *body, const struct chat_model *m,
		       struct arena *a, struct tools *out,
		       struct fail *fail) MUST_USE;

/* Chooses the format in which a model writes calls. name is the setting's value; "auto" or
 * NULL: recognise the format from the template. *out is NULL for "none", and where the
 * template shows no known format. E_CONFIG: the name is not known. */
enum status tools_choose_format(const char *name, const char *chat_template,
				const struct tool_format **out,
				struct fail *fail) MUST_USE;

/* Is a parameter of this schema a string, whatever its value looks like? For formats that
 * do not quote strings. */
bool tools_is_string(const json_t *schema);

/* Appends the forced call's beginning to the prompt, and notes it in o for the parser. The
 * model continues from there. */
void tools_add_opening(const struct tools *t, const struct tool_format *f,
		       struct arena *a, struct outparse_opts *o,
		       struct marked *prompt);
