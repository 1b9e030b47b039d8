/* SPDX-License-Identifier: Apache-2.0
 *
 * Releases pages of a mapped model file that were read for the last time. They leave this
 * process. The kernel keeps them in its page cache, but no longer counts them as this process's
 * memory. Thread: any.
 */
#pragma once
#include "model/formats/blocks.h"

/* Release the whole pages within n bytes at p. */
void weight_pages_drop(const void *p, size_t n_bytes);
/* Release the pages of w's numbers, if w lies in a mapped file. Scales within blocks go with
 * the numbers. Scales of a part of a tensor (row_step) lie among those of other parts and are
 * few, so they stay. */
void weight_pages_give_back(const struct weight *w);
