/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds tool calls in a model's text while it streams. One parser runs the states of
 * toolformat.c. Thread: one at a time.
 */
#pragma once
#include "output/toolformat.h"

/* The type of a parameter's value, for formats that do not mark it. */
struct toolparse_param {
	struct str name;
	bool is_string; /* false: JSON if the value is JSON, else a string */
};
struct toolparse_tool {
	struct str name;
	const struct toolparse_param *params;
	int n_params;
};

struct toolparse_opts {
	const struct tool_format *format; /* NULL: do not look for calls */
	const struct toolparse_tool *tools; /* must outlive the parser */
	int n_tools;
	bool one_call;    /* drop all text after the first call */
	struct str begun; /* beginning of the answer that the prompt already holds; must outlive
			   * the parser */
};

/* Receives text. All channels but OUT_CALL_NAME may come in several pieces. */
typedef void (*toolparse_sink)(void *ctx, enum out_channel channel, struct str text);

struct toolparse;
struct toolparse *toolparse_create(const struct toolparse_opts *o,
				   toolparse_sink sink, void *ctx);
void toolparse_destroy(struct toolparse *p);
/* Feeds bytes, cut anywhere. Text that may still become part of a call is held back. */
void toolparse_push(struct toolparse *p, struct str text);
/* Ends the text. A call that lacks only its closing words counts as complete. is_cut: the
 * model did not end the text itself, so an open call is cut off and not malformed. */
void toolparse_finish(struct toolparse *p, bool is_cut);
bool toolparse_in_reasoning(const struct toolparse *p);
/* Number of calls begun so far, including broken ones. */
int toolparse_n_begun(const struct toolparse *p);
/* Appends the text of the unfinished call, from its first word on (harmony: its name,
 * then the text after the header). False: no call is open. out NULL: only tests that. */
bool toolparse_call(const struct toolparse *p, struct buf *out);
/* True if the current text is content for the user. */
bool toolparse_in_content(const struct toolparse *p);
/* With one_call: true if the call is complete. */
bool toolparse_is_over(const struct toolparse *p);
/* Appends the arguments that `text` has begun, closed where it breaks off. A string keeps the
 * characters that it has. Half a number, word or member is left out. False: the text is not
 * the beginning of an object, and nothing is appended. */
bool toolparse_close(struct str text, struct buf *out);
