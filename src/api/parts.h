/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer as a list of parts: reasoning, text, tool calls, as they came. Thread: one
 * at a time.
 */
#pragma once
#include "output/outparse.h"

struct answer_part {
	enum out_channel channel; /* REASONING, CONTENT, or CALL_NAME for a call */
	struct buf text;          /* empty for a call, whose arguments are kept in the choice */
	int i_call;               /* for a call: its index in the choice's calls */
};

struct parts {
	struct answer_part *p;
	int n, cap;
};

/* Appends a span to the last part. A span of another kind, or a call's name, begins a new
 * part; then the result is true. i_call is set in a new part. */
bool parts_add(struct parts *ps, enum out_channel channel, struct str text,
	       int i_call);
void parts_deinit(struct parts *ps);
