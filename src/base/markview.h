/* SPDX-License-Identifier: Apache-2.0
 *
 * A view of a part of a marked text. Thread: any.
 */
#pragma once
#include "base/marked.h"

struct markview {
	struct str text;
	const struct mark *marks; /* in ascending order, covering the whole text */
	size_t n_marks;
	size_t base; /* offset of `text` within the whole marked text */
};

/* A view of all of m. Asserts that the marks cover the text. */
struct markview markview_of(const struct marked *m);
struct markview markview_slice(struct markview v, size_t start, size_t end);
/* The least trusted writer of bytes [start, end). For an empty range: the writer of the
 * byte at start. O(log marks + marks in the range). */
enum trust markview_least(struct markview v, size_t start, size_t end);
/* The byte at `at` lies in a run of bytes of one trust level. Returns the offset just after
 * that run. */
size_t markview_run_end(struct markview v, size_t at, enum trust *out_trust);
/* Append bytes [start, end) of the view to m, with their marks. */
void markview_copy(struct markview v, size_t start, size_t end,
		   struct marked *m);
