/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of a text whose bytes know who wrote them. Thread: any.
 */
#pragma once
#include "base/marked.h"

struct markview {
	struct str text;
	const struct mark *marks; /* in ascending order, covering the whole text */
	size_t n_marks;
	size_t base; /* where text begins, counted as the marks count */
};

/* All of m. Asserts that the marks cover the text. */
struct markview markview_of(const struct marked *m);
struct markview markview_slice(struct markview v, size_t start, size_t end);
/* The least trusted writer of bytes [start, end); of the byte at start where
 * the range is empty. O(log marks + marks inside). */
enum trust markview_least(struct markview v, size_t start, size_t end);
/* Offset behind the run of marks with one trust that holds the byte at `at`. */
size_t markview_run_end(struct markview v, size_t at, enum trust *out_trust);
/* Append view bytes [start, end) to m with their marks. */
void markview_copy(struct markview v, size_t start, size_t end,
		   struct marked *m);
