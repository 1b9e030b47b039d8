/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a mapped model file. Those that were read for the last time leave this process: the
 * kernel keeps them in its page cache, but no longer counts them as this process's memory. Of a
 * table whose rows are looked up, only pages of the rows are read. Thread: any.
 */
#pragma once
#include "model/formats/blocks.h"

/* Release the whole pages within n bytes at p. */
void weight_pages_drop(const void *p, size_t n_bytes);
/* Release the pages of w's numbers, if w lies in a mapped file. Scales within blocks go with
 * the numbers. Scales of a part of a tensor (row_step) lie among those of other parts and are
 * few, so they stay. */
void weight_pages_give_back(const struct weight *w);
/* w is a table, each row of which lies by itself: from now on the kernel reads no pages around
 * those that are asked for. Nothing, if w lies in no mapped file. */
void weight_pages_random(const struct weight *w);
/* Begin to read a row's pages from the disk, and return at once. */
void weight_pages_want(const struct weight *w, int64_t row);
