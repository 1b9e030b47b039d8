/* SPDX-License-Identifier: Apache-2.0 */
#include "base/marked.h"

#include <stdlib.h>

#include "base/alloc.h"

void marked_add(struct marked *m, struct str s, enum trust trust)
{
	size_t before = m->text.n;
	buf_add_str(&m->text, s);
	if (m->text.n == before)
		return;
	if (m->n_marks > 0 && m->marks[m->n_marks - 1].trust == trust) {
		m->marks[m->n_marks - 1].end = m->text.n;
		return;
	}
	if (m->n_marks == m->cap_marks) {
		size_t cap = m->cap_marks ? m->cap_marks * 2 : 16;
		struct mark *marks = alloc_or_drop(m->marks, cap * sizeof *marks);
		if (!marks) {
			m->text.n = before;
			return;
		}
		m->marks = marks;
		m->cap_marks = cap;
	}
	m->marks[m->n_marks++] = (struct mark){m->text.n, trust};
}

void marked_deinit(struct marked *m)
{
	buf_deinit(&m->text);
	free(m->marks);
	*m = (struct marked){0};
}
