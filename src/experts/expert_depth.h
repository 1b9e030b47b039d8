/* SPDX-License-Identifier: Apache-2.0
 *
 * How many pieces to read at a time: measured once on the store itself, and kept beside it.
 * Thread: one.
 */
#pragma once
#include "experts/expert_store.h"

#define EXPERT_DEPTH_SUFFIX ".depth"

/* The smallest depth of n, ascending, whose rate is within a thirtieth of the best. */
int expert_depth_choose(const int *depths, const double *rates, int n);
/* The depth for the store, from the file at `path` or measured now: within half a second on
 * a fast disk. reader: slots, which reads overwrite. A store that is read through the page
 * cache is not measured. path NULL: measure, and keep nothing. */
int expert_depth_find(const struct expert_store *s, const struct expert_reader_opts *reader,
		      const char *path);
