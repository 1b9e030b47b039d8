/* SPDX-License-Identifier: Apache-2.0
 *
 * Grams of three tokens are chained by their hash, the latest first. A chain may hold
 * grams of other tokens with the same hash; the comparison leaves them out.
 *
 * A draft may reach the text's end: then it continues with its own first tokens. So a text
 * that repeats itself with a short period is drafted at any length.
 */
#include "sched/lookup.h"

#include <stdlib.h>

#include "base/alloc.h"

#define MIN_HEADS 256

void lookup_deinit(struct lookup *l)
{
	ids_deinit(&l->text);
	free(l->before);
	free(l->head);
	*l = (struct lookup){0};
}

/* The head of the gram that ends at text[i]. Constants: golden ratio, as Fibonacci hashing. */
static size_t head_of(const struct lookup *l, size_t i)
{
	uint64_t hash = 0;
	for (size_t k = 0; k < LOOKUP_GRAM; k++)
		hash = (hash ^ (uint32_t)l->text.p[i - k]) * 0x9E3779B97F4A7C15u;
	return (size_t)(hash >> 32) & (l->n_heads - 1);
}

static void link_gram(struct lookup *l, size_t i)
{
	l->before[i] = -1;
	if (i + 1 < LOOKUP_GRAM)
		return;
	size_t h = head_of(l, i);
	l->before[i] = l->head[h];
	l->head[h] = (int32_t)i;
}

/* Makes at least as many heads as tokens, so that chains stay short, and links all grams
 * anew. */
static void grow_heads(struct lookup *l, size_t n)
{
	size_t n_heads = MAX(l->n_heads, MIN_HEADS);
	while (n_heads < n)
		n_heads *= 2;
	l->head = xrealloc(l->head, n_heads * sizeof *l->head);
	l->n_heads = n_heads;
	memset(l->head, 0xFF, n_heads * sizeof *l->head);
	for (size_t i = 0; i < l->text.n; i++)
		link_gram(l, i);
}

void lookup_add(struct lookup *l, const int32_t *ids, size_t n)
{
	size_t end = l->text.n + n;
	if (end > l->cap) {
		l->cap = MAX(end, 2 * l->cap);
		l->before = xrealloc(l->before, l->cap * sizeof *l->before);
	}
	if (end > l->n_heads)
		grow_heads(l, end);
	for (size_t i = 0; i < n; i++) {
		ids_add(&l->text, ids[i]);
		link_gram(l, l->text.n - 1);
	}
}

/* The number of equal tokens that end at text[at] and at the text's end; at most LOOKUP_LONG. */
static int match_length(const struct lookup *l, int32_t at)
{
	size_t last = l->text.n - 1;
	int n = 0;
	while (n < LOOKUP_LONG && n <= at && l->text.p[at - n] == l->text.p[last - (size_t)n])
		n++;
	return n;
}

/* Where two matches end: the longest one, the latest of equally long ones; and the next
 * longest. -1: no match. */
struct ends {
	int32_t best, second;
	int n_best, n_second;
};

static struct ends find_ends(const struct lookup *l)
{
	struct ends e = {-1, -1, LOOKUP_GRAM - 1, LOOKUP_GRAM - 1};
	int32_t at = l->before[l->text.n - 1];
	for (int i = 0; i < LOOKUP_TRIES && at >= 0 && e.n_best < LOOKUP_LONG; i++) {
		int n = match_length(l, at);
		if (n > e.n_best)
			e = (struct ends){at, e.best, n, e.n_best};
		else if (n > e.n_second)
			e = (struct ends){e.best, at, e.n_best, n};
		at = l->before[at];
	}
	return e;
}

static int count_same(const struct lookup *l, const struct ends *e, const int32_t *draft, int max)
{
	int n = 0;
	if (e->second < 0 || 2 * e->n_second < e->n_best)
		return -1;
	size_t from = (size_t)e->second + 1;
	while (n < max && from + (size_t)n < l->text.n &&
	       l->text.p[from + (size_t)n] == draft[n])
		n++;
	return n;
}

int lookup_draft(const struct lookup *l, int max, int32_t *out, struct lookup_match *match)
{
	if (l->text.n < LOOKUP_GRAM + 1)
		return 0;
	struct ends e = find_ends(l);
	for (int i = 0; i < max && e.best >= 0; i++) {
		size_t from = (size_t)e.best + 1 + (size_t)i;
		out[i] = from < l->text.n ? l->text.p[from] : out[from - l->text.n];
	}
	*match = (struct lookup_match){e.n_best, count_same(l, &e, out, max)};
	return e.best >= 0 ? max : 0;
}
