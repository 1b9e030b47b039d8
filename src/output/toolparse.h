/* SPDX-License-Identifier: Apache-2.0
 *
 * Tool calls out of a model's text while it streams: one machine over the states
 * of toolformat.c. Thread: one at a time.
 */
#pragma once
#include "output/toolformat.h"

/* What the values of parameters look like where the format does not say. */
struct toolparse_param {
	struct str name;
	bool is_string; /* false: JSON where it is JSON, else a string */
};
struct toolparse_tool {
	struct str name;
	const struct toolparse_param *params;
	int n_params;
};

struct toolparse_opts {
	const struct tool_format *format; /* NULL: no calls are looked for */
	const struct toolparse_tool *tools; /* outlive the parser */
	int n_tools;
	bool one_call;    /* what follows the first one is dropped */
	struct str begun; /* text of the answer that the prompt already holds; outlives
	                   * the parser */
};

/* Text of any channel but OUT_CALL_NAME may come in several pieces. */
typedef void (*toolparse_sink)(void *ctx, enum out_channel channel, struct str text);

struct toolparse;
struct toolparse *toolparse_create(const struct toolparse_opts *o,
				   toolparse_sink sink, void *ctx);
void toolparse_destroy(struct toolparse *p);
/* Bytes of any cut; what can still become part of a call is held back. */
void toolparse_push(struct toolparse *p, struct str text);
/* No more text: a call that lacks only its end is complete. */
void toolparse_finish(struct toolparse *p);
bool toolparse_in_reasoning(const struct toolparse *p);
/* Calls begun so far, broken ones too. */
int toolparse_n_begun(const struct toolparse *p);
/* Append the text of the call that is being read, from its first word on (harmony: its
 * name, then from the end of the header). False: none is. out NULL: only that. */
bool toolparse_call(const struct toolparse *p, struct buf *out);
/* Now inside text for the user. */
bool toolparse_in_content(const struct toolparse *p);
/* one_call: it is complete. */
bool toolparse_is_over(const struct toolparse *p);
