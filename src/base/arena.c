/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdlib.h>

#include "base/alloc.h"

#define BLOCK_MIN 8192
#define BLOCK_MAX ((size_t)1 << 20)

struct arena_block {
	struct arena_block *next;
	size_t used, cap;
	_Alignas(16) char data[];
};

void arena_init(struct arena *a)
{
	*a = (struct arena){0};
}

void arena_deinit(struct arena *a)
{
	struct arena_block *b = a->head;
	while (b) {
		struct arena_block *next = b->next;
		free(b);
		b = next;
	}
	a->head = NULL;
	a->n_bytes = 0;
}

static size_t rounded(size_t n)
{
	return (n + 15) & ~(size_t)15;
}

static void *alloc(struct arena *a, size_t n, void *(*from)(void *, size_t))
{
	struct arena_block *b = a->head;
	n = rounded(n);
	if (!b || b->cap - b->used < n) {
		/* Block sizes double, so that many small pieces cost few mallocs. A piece
		 * larger than the doubled size gets a block of exactly its size. */
		size_t cap = b ? MIN(b->cap * 2, BLOCK_MAX) : BLOCK_MIN;
		cap = MAX(cap, n);
		b = from(NULL, sizeof *b + cap);
		if (!b)
			return NULL;
		b->next = a->head;
		b->used = 0;
		b->cap = cap;
		a->head = b;
	}
	void *p = b->data + b->used;
	b->used += n;
	a->n_bytes += n;
	memset(p, 0, n);
	return p;
}

void *arena_alloc(struct arena *a, size_t n) { return alloc(a, n, xrealloc); }
void *arena_try(struct arena *a, size_t n) { return alloc(a, n, alloc_or_drop); }

struct str arena_str(struct arena *a, struct str s)
{
	char *p = arena_try(a, s.n + 1);
	if (!p)
		return STR("");
	if (s.n)
		memcpy(p, s.p, s.n);
	return (struct str){p, s.n};
}

char *arena_strdup(struct arena *a, const char *s)
{
	return (char *)arena_str(a, str_of(s)).p;
}
