/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define BETWEEN_US 100000

static int64_t shown_us;
static bool is_shown;
static char shown[80]; /* the last text shown */

void progress_show(const char *what, int64_t done, int64_t total)
{
	int64_t now = clock_now_us(&clock_monotonic);
	bool is_new = !is_shown || strcmp(shown, what) != 0;
	if (!isatty(STDERR_FILENO) ||
	    (!is_new && done < total && now - shown_us < BETWEEN_US))
		return;
	shown_us = now;
	is_shown = true;
	snprintf(shown, sizeof shown, "%s", what);
	fprintf(stderr, "\r%s %3.0f %%\033[K", what,
		total > 0 ? 100.0 * (double)done / (double)total : 100.0);
	fflush(stderr);
}

void progress_end(void)
{
	if (is_shown)
		fputs("\r\033[K", stderr);
	is_shown = false;
}
