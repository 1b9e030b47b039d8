/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of one request, counted while it is done. A client can ask for much work with
 * few bytes: a schema, a regex, a grammar, a picture of one colour. Each place that does such
 * work spends units of one budget, and stops as soon as the budget is used up.
 *
 * The budget belongs to the thread that works. Without one (at start, in tools) work is
 * only counted by the limits of each part. Counts, not times: a request that is refused
 * here is refused on every machine.
 *
 * A request whose memory the system refuses (alloc.h) is over in the same way.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* What a byte that the client sends is worth: see http/conn_call.c. */
#define WORK_BYTE 100

enum work_part {
	WORK_SCHEMA, WORK_REGEX, WORK_GRAMMAR, WORK_TEMPLATE, WORK_TEXT, WORK_IMAGE,
	WORK_AUDIO,
	WORK_PARTS,
};

struct work_budget {
	size_t left;
	size_t own[WORK_PARTS]; /* what is left of units for one part only; they go first */
	size_t spent[WORK_PARTS];
	bool is_over;
	bool has_no_memory; /* what the request has made since then is not whole */
};

/* Begins a request on this thread: units of about ten nanoseconds. *w lasts to work_end. */
void work_begin(struct work_budget *w, size_t units);
void work_end(void);
/* False: the budget is used up. The caller fails with E_LIMIT. */
bool work_spend(enum work_part part, size_t units);
bool work_is_over(void);
/* Units that are left; SIZE_MAX without a budget. */
size_t work_left(void);
/* The system has refused memory for this thread's request, which is over now. False: the thread
 * works for none. */
bool work_lose_memory(void);
/* Is *w over? Then fills *f with E_NOMEM, or with E_LIMIT and the part that took most. Keeps the
 * path of a fault of the same code. */
bool work_fail(const struct work_budget *w, struct fail *f);
