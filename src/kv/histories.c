/* SPDX-License-Identifier: Apache-2.0
 *
 * Histories are compared one by one. A history can be more alike than the best so far only if it
 * has the prompt's token at the place where the best one differs. So most are dismissed by one
 * comparison. The last used come first: a conversation goes on from its last turn.
 */
#include "kv/histories.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct history {
	char *space;
	size_t space_n;
	int32_t *tokens;
	int n;
};

struct histories {
	struct history list[HISTORIES_MAX]; /* the last used first */
	int n;
	int64_t n_tok; /* tokens of all histories */
};

struct histories *histories_create(void)
{
	return xcalloc(1, sizeof(struct histories));
}

static void drop_history(struct histories *p, int i)
{
	p->n_tok -= p->list[i].n;
	free(p->list[i].space);
	free(p->list[i].tokens);
	p->n--;
	memmove(&p->list[i], &p->list[i + 1], sizeof *p->list * (size_t)(p->n - i));
}

void histories_destroy(struct histories *p)
{
	while (p && p->n > 0)
		drop_history(p, p->n - 1);
	free(p);
}

static void move_to_front(struct histories *p, int i)
{
	struct history h = p->list[i];
	memmove(&p->list[1], &p->list[0], sizeof h * (size_t)i);
	p->list[0] = h;
}

static int n_alike(const int32_t *a, const int32_t *b, int n)
{
	enum { PIECE = 1024 }; /* memcmp finds fast that a piece differs, but not where */
	int i = 0;
	while (i + PIECE <= n && memcmp(a + i, b + i, sizeof *a * PIECE) == 0)
		i += PIECE;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/* Index of the most alike history, or -1. */
static int best_of(const struct histories *p, struct str space, const int32_t *tokens, int n,
		   int *out_alike)
{
	int best = -1, most = 0;
	for (int i = 0; i < p->n; i++) {
		const struct history *h = &p->list[i];
		if (h->n <= most || n <= most || h->tokens[most] != tokens[most] ||
		    !str_eq((struct str){h->space, h->space_n}, space))
			continue;
		int alike = n_alike(h->tokens, tokens, MIN(n, h->n));
		if (alike > most) {
			most = alike;
			best = i;
		}
	}
	*out_alike = most;
	return best;
}

void histories_add(struct histories *p, struct str space, const int32_t *tokens, int n)
{
	int alike, i = best_of(p, space, tokens, n, &alike);
	if (n < 1 || n > HISTORIES_MAX_TOKENS)
		return;
	if (i >= 0 && alike == n) { /* a history has all of these tokens already */
		move_to_front(p, i);
		return;
	}
	if (i >= 0 && alike == p->list[i].n)
		drop_history(p, i);
	while (p->n == HISTORIES_MAX || (p->n > 0 && p->n_tok + n > HISTORIES_MAX_TOKENS))
		drop_history(p, p->n - 1);
	struct history h = {.space = xstrndup(space.n ? space.p : "", space.n),
			    .space_n = space.n, .n = n,
			    .tokens = xmalloc(sizeof *tokens * (size_t)n)};
	memcpy(h.tokens, tokens, sizeof *tokens * (size_t)n);
	p->list[p->n++] = h;
	p->n_tok += n;
	move_to_front(p, p->n - 1);
}

void histories_find(struct histories *p, struct str space, const int32_t *tokens, int n,
		    struct history_match *out)
{
	int alike, i = best_of(p, space, tokens, n, &alike);
	*out = (struct history_match){.n_alike = alike};
	if (i < 0)
		return;
	move_to_front(p, i);
	out->tokens = p->list[0].tokens;
	out->n = p->list[0].n;
}
