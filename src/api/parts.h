/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer as a list of parts, each of one kind: reasoning, then text. Thread: one
 * at a time.
 */
#pragma once
#include "text/outparse.h"

struct part {
	enum out_channel channel;
	struct buf text;
};

struct parts {
	struct part *p;
	int n, cap;
};

/* Append text to the last part, or begin one of this kind; true: it has begun. */
bool parts_add(struct parts *ps, enum out_channel channel, struct str text);
void parts_deinit(struct parts *ps);
