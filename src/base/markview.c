/* SPDX-License-Identifier: Apache-2.0 */
#include "base/markview.h"

#include <assert.h>

#include "base/alloc.h"

struct markview markview_of(const struct marked *m)
{
	assert(m->text.n == (m->n_marks ? m->marks[m->n_marks - 1].end : 0));
	return (struct markview){buf_str(&m->text), m->marks, m->n_marks, 0};
}

struct markview markview_slice(struct markview v, size_t start, size_t end)
{
	v.text = (struct str){v.text.p + start, end - start};
	v.base += start;
	return v;
}

/* Index of the mark that covers the byte at offset `at` of the whole marked text. */
static size_t find_mark(struct markview v, size_t at)
{
	size_t lo = 0, hi = v.n_marks;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (v.marks[mid].end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

enum trust markview_least(struct markview v, size_t start, size_t end)
{
	enum trust least = TRUST_TEMPLATE;
	size_t from = start;
	for (size_t i = find_mark(v, v.base + start); i < v.n_marks; i++) {
		if (from >= end && from > start)
			break;
		/* the enum is ordered from most to least trusted */
		least = MAX(least, v.marks[i].trust);
		from = v.marks[i].end - v.base;
	}
	return least;
}

size_t markview_run_end(struct markview v, size_t at, enum trust *out_trust)
{
	size_t i = find_mark(v, v.base + at);
	assert(i < v.n_marks);
	*out_trust = v.marks[i].trust;
	while (i + 1 < v.n_marks && v.marks[i + 1].trust == *out_trust)
		i++;
	return MIN(v.marks[i].end - v.base, v.text.n);
}

void markview_copy(struct markview v, size_t start, size_t end,
		   struct marked *m)
{
	while (start < end) {
		enum trust trust;
		size_t stop = MIN(markview_run_end(v, start, &trust), end);
		marked_add(m, (struct str){v.text.p + start, stop - start},
			   trust);
		start = stop;
	}
}
