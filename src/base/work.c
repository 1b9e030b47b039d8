/* SPDX-License-Identifier: Apache-2.0 */
#include "base/work.h"

#include <stdio.h>

static _Thread_local struct work_budget *current;

void work_begin(struct work_budget *w, size_t units)
{
	*w = (struct work_budget){.left = units};
	current = w;
}

void work_end(void) { current = NULL; }

bool work_spend(enum work_part part, size_t units)
{
	struct work_budget *w = current;
	if (!w)
		return true;
	w->spent[part] += units;
	w->is_over |= units > w->left;
	w->left -= w->is_over ? w->left : units;
	return !w->is_over;
}

bool work_is_over(void) { return current && current->is_over; }

void work_fail(const struct work_budget *w, struct fail *f)
{
	static const char *const names[WORK_PARTS] = {
		[WORK_SCHEMA] = "combinations of its schemas",
		[WORK_REGEX] = "patterns",
		[WORK_GRAMMAR] = "rules and classes of its grammar",
	};
	enum work_part most = WORK_SCHEMA;
	for (enum work_part i = 0; i < WORK_PARTS; i++)
		if (w->spent[i] > w->spent[most])
			most = i;
	char param[sizeof f->param];
	snprintf(param, sizeof param, "%s", f->code == E_LIMIT ? f->param : "");
	fail_at(f, E_LIMIT, param, "the request needs too much work before it can begin: most "
		"went into the %s. Make them smaller or simpler", names[most]);
}
