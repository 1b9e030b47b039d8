/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's text, split for the client while it streams: reasoning, content,
 * tool calls, and an end at the first stop string. What may still turn
 * out to be the beginning of a tag or a stop string is held back, nothing else
 * is. Thread: one at a time.
 *
 * Stop strings are looked for in all of the model's text, reasoning and tags
 * included (as vLLM does). A tag counts where a block can begin or end: the open
 * tag as the first text of a block, the close tag anywhere in reasoning; elsewhere
 * they are words the model writes about, and stay text. Tool calls are looked for in
 * content only.
 */
#pragma once
#include "output/toolparse.h"

struct outparse_opts {
	const struct str *stops; /* copied */
	int n_stops;
	bool include_stop;      /* keep the stop string in the text */
	bool split_reasoning;   /* false: everything is content, tags stay */
	bool starts_in_reasoning; /* the prompt already opened the tag */
	struct str think_open, think_close; /* "<think>", "</think>"; copied */
	struct toolparse_opts tools; /* where no calls are looked for: all 0 */
};

struct out_span {
	enum out_channel channel;
	struct str text; /* valid until the next call */
};

struct outparse;
struct outparse *outparse_create(const struct outparse_opts *o);
void outparse_destroy(struct outparse *p);
/* Feed decoded text. Returns the number of spans ready, 0..n; white space next
 * to the tags is not part of either channel. */
int outparse_push(struct outparse *p, struct str text,
		  const struct out_span **out_spans);
/* No more text: what was held back comes out. */
int outparse_finish(struct outparse *p, const struct out_span **out_spans);
/* A stop string was met, or the only call wanted is complete; further text is
 * ignored. */
bool outparse_stopped(const struct outparse *p);
/* Which: its index in opts.stops (the longest of those that end there), or -1. */
int outparse_stop_index(const struct outparse *p);
/* As of toolparse.h; the call's text with what is held back as the beginning of a stop
 * string. */
int outparse_n_begun(const struct outparse *p);
bool outparse_call(const struct outparse *p, struct buf *out);
bool outparse_in_content(const struct outparse *p);
/* Now inside reasoning (to count reasoning tokens). */
bool outparse_in_reasoning(const struct outparse *p);
