/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer as a list of parts: reasoning, text, tool calls, as they came. Thread: one
 * at a time.
 */
#pragma once
#include "output/outparse.h"

struct answer_part {
	enum out_channel channel; /* REASONING, CONTENT, or CALL_NAME for a call */
	struct buf text;          /* a call has its arguments elsewhere */
	int i_call;               /* which of the choice's calls */
};

struct parts {
	struct answer_part *p;
	int n, cap;
};

/* Append a span: to the last part, or to a new one when it is of another kind or a
 * call's name; true: a part has begun. i_call is for that. */
bool parts_add(struct parts *ps, enum out_channel channel, struct str text,
	       int i_call);
void parts_deinit(struct parts *ps);
