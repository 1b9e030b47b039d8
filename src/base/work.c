/* SPDX-License-Identifier: Apache-2.0 */
#include "base/work.h"

#include <stdint.h>
#include <stdio.h>

#include "base/alloc.h"

static const char *const words[WORK_PARTS] = {
	[WORK_SCHEMA] = "combinations of its schemas",
	[WORK_REGEX] = "patterns",
	[WORK_GRAMMAR] = "rules and classes of its grammar",
	[WORK_TEMPLATE] = "chat template, for its messages and tools",
	[WORK_TEXT] = "splitting of its text into words",
	[WORK_IMAGE] = "pixels of its images, whose files have few bytes for so many",
	[WORK_AUDIO] = "samples of its audio, whose files have few bytes for so many",
};

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
	size_t own = MIN(units, w->own[part]);
	w->own[part] -= own;
	units -= own;
	w->is_over |= units > w->left;
	w->left -= w->is_over ? w->left : units;
	return !w->is_over;
}

bool work_is_over(void) { return current && current->is_over; }

size_t work_left(void) { return current ? current->left : SIZE_MAX; }

bool work_lose_memory(void)
{
	struct work_budget *w = current;
	if (!w)
		return false;
	w->is_over = w->has_no_memory = true;
	w->left = 0;
	return true;
}

bool work_fail(const struct work_budget *w, struct fail *f)
{
	enum work_part most = WORK_SCHEMA;
	char param[sizeof f->param] = "";
	if (w->has_no_memory) {
		fail_set(f, E_NOMEM, "%s", status_text(E_NOMEM));
		return true;
	}
	for (enum work_part i = 0; i < WORK_PARTS; i++)
		if (w->spent[i] > w->spent[most])
			most = i;
	if (f->code == E_LIMIT)
		snprintf(param, sizeof param, "%s", f->param);
	if (w->is_over)
		fail_at(f, E_LIMIT, param, "the request needs too much work before it can begin: "
			"most went into the %s. Make them smaller or simpler", words[most]);
	return w->is_over;
}
