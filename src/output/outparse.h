/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits the model's text for the client while it streams, into reasoning, content and
 * tool calls. The text ends at the first stop string. Only text that may still become a
 * tag or a stop string is held back. Thread: one at a time.
 *
 * Stop strings are searched in all of the model's text, including reasoning and tags (as
 * in vLLM). The open tag counts only as the first text of a block, the close tag anywhere
 * in reasoning. Elsewhere tags are plain text, because a model may write about them. Tool
 * calls are searched in content only.
 */
#pragma once
#include "output/toolparse.h"

struct outparse_opts {
	const struct str *stops; /* copied */
	int n_stops;
	bool include_stop;      /* do not remove the stop string from the text */
	bool split_reasoning;   /* false: all text is content, and tags stay in it */
	bool starts_in_reasoning; /* the prompt ends inside a reasoning block */
	struct str think_open, think_close; /* "<think>", "</think>"; copied */
	struct toolparse_opts tools; /* all zero: do not look for tool calls */
};

struct out_span {
	enum out_channel channel;
	struct str text; /* valid until the next call */
};

struct outparse;
struct outparse *outparse_create(const struct outparse_opts *o);
void outparse_destroy(struct outparse *p);
/* Feeds decoded text. Returns the number of finished spans. White space next to the tags
 * belongs to no channel. */
int outparse_push(struct outparse *p, struct str text,
		  const struct out_span **out_spans);
/* Ends the text and releases what was held back. Returns the number of spans. is_cut: a
 * limit ended the text, not the model. A stop string is known to have done so. */
int outparse_finish(struct outparse *p, bool is_cut, const struct out_span **out_spans);
/* True if a stop string was found, or if the only wanted call is complete. Further text
 * is then ignored. */
bool outparse_stopped(const struct outparse *p);
/* Index in opts.stops of the stop string found, the longest if several end there; -1:
 * none. */
int outparse_stop_index(const struct outparse *p);
/* Like toolparse_n_begun and toolparse_call. The call's text includes bytes held back as
 * a possible stop string. */
int outparse_n_begun(const struct outparse *p);
bool outparse_call(const struct outparse *p, struct buf *out);
bool outparse_in_content(const struct outparse *p);
/* True inside reasoning; used to count reasoning tokens. */
bool outparse_in_reasoning(const struct outparse *p);
