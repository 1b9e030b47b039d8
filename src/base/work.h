/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of one request, counted while it is done. A client can ask for much work with
 * few bytes: a schema, a regex, a grammar. Each place that does such work spends
 * units of one budget, and stops as soon as the budget is used up.
 *
 * The budget belongs to the thread that works. Without one (at start, in tools) work is
 * only counted by the limits of each part. Counts, not times: a request that is refused
 * here is refused on every machine.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum work_part { WORK_SCHEMA, WORK_REGEX, WORK_GRAMMAR, WORK_PARTS };

struct work_budget {
	size_t left;
	size_t spent[WORK_PARTS];
	bool is_over;
};

/* Begins a request on this thread: units of about ten nanoseconds. *w lasts to work_end. */
void work_begin(struct work_budget *w, size_t units);
void work_end(void);
/* False: the budget is used up. The caller fails with E_LIMIT. */
bool work_spend(enum work_part part, size_t units);
bool work_is_over(void);
/* Fills *f with E_LIMIT and the part that took most. Keeps the path of the fault. */
void work_fail(const struct work_budget *w, struct fail *f);
