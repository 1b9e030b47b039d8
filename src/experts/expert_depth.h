/* SPDX-License-Identifier: Apache-2.0
 *
 * How many pieces to read at a time, and of what size: measured once on the store itself,
 * and kept beside it.
 * Thread: one.
 */
#pragma once
#include "experts/expert_store.h"

#define EXPERT_DEPTH_SUFFIX ".depth"

/* The smallest of n ascending depths whose rate is within a thirtieth of the best rate. */
int expert_depth_choose(const int *depths, const double *rates, int n);
/* Sets depth and piece of *reader for the store: from the file at `path`, or measured now,
 * within a second on a fast disk. The measurement reads into reader->slots. Both become 0 if
 * the store is read through the page cache: nothing is measured then. path NULL: measure, and
 * keep no file. */
void expert_depth_find(const struct expert_store *s, struct expert_reader_opts *reader,
		       const char *path);
