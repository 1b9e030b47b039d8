/* SPDX-License-Identifier: Apache-2.0
 *
 * How many pieces to read at a time, and of what size: measured once on the store itself,
 * and kept beside it.
 * Thread: one.
 */
#pragma once
#include "experts/expert_store.h"

#define EXPERT_DEPTH_SUFFIX ".depth"

/* The smallest depth of n, ascending, whose rate is within a thirtieth of the best. */
int expert_depth_choose(const int *depths, const double *rates, int n);
/* Sets depth and piece of *reader for the store, from the file at `path` or measured now:
 * within a second on a fast disk. reader: slots, which reads overwrite. Both become 0 for a
 * store that is read through the page cache: nothing is measured. path NULL: measure, and
 * keep nothing. */
void expert_depth_find(const struct expert_store *s, struct expert_reader_opts *reader,
		       const char *path);
