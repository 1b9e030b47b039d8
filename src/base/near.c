/* SPDX-License-Identifier: Apache-2.0 */
#include "base/near.h"

#include "base/alloc.h"

#define WORD_MAX 40

static bool is_same_char(char a, char b)
{
	return (a == '-' ? '_' : a) == (b == '-' ? '_' : b);
}

/* Edits (insert, delete, replace) between a and b; b is at most WORD_MAX long. */
static int near_distance(struct str a, struct str b)
{
	int row[WORD_MAX + 1];
	for (size_t j = 0; j <= b.n; j++)
		row[j] = (int)j;
	for (size_t i = 1; i <= a.n; i++) {
		int diagonal = row[0];
		row[0] = (int)i;
		for (size_t j = 1; j <= b.n; j++) {
			int above = row[j];
			int replace = diagonal + !is_same_char(a.p[i - 1], b.p[j - 1]);
			row[j] = MIN(MIN(above, row[j - 1]) + 1, replace);
			diagonal = above;
		}
	}
	return row[b.n];
}

void near_begin(struct near *n, struct str word)
{
	*n = (struct near){.word = word, .least = (int)MIN(word.n, (size_t)WORD_MAX) / 3 + 2};
}

void near_try(struct near *n, const char *name)
{
	struct str s = str_of(name);
	if (n->word.n > WORD_MAX || s.n > WORD_MAX)
		return;
	int d = near_distance(n->word, s);
	if (d < n->least) {
		n->least = d;
		n->best = name;
	}
}
