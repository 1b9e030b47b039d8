/* SPDX-License-Identifier: Apache-2.0
 *
 * Character classes as automata over the bytes of UTF-8. A state is a row with the next
 * state for each of the 256 bytes. Equal rows are stored once, so classes share common
 * parts such as "any continuation byte".
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "grammar/grammar_private.h"

#define ROWS_MAX 60000
#define BUCKETS 4096
#define SURROGATES 0xD800u
#define SURROGATES_END 0xE000u

void row_pool_init(struct row_pool *p)
{
	*p = (struct row_pool){.n = ROW_FIRST, .cap = 64};
	p->rows = xcalloc(p->cap, sizeof *p->rows);
	p->chain = xcalloc(p->cap, sizeof *p->chain);
	p->buckets = xcalloc(BUCKETS, sizeof *p->buckets);
}

void row_pool_deinit(struct row_pool *p)
{
	free(p->rows);
	free(p->chain);
	free(p->buckets);
}

static int by_lo(const void *a, const void *b)
{
	const struct grammar_range *x = a, *y = b;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

static bool is_surrogate(uint32_t cp)
{
	return cp >= SURROGATES && cp < SURROGATES_END;
}

size_t range_normalize(struct grammar_range *r, size_t n)
{
	size_t kept = 0;
	if (n > 1)
		qsort(r, n, sizeof *r, by_lo);
	for (size_t i = 0; i < n; i++) {
		struct grammar_range x = {r[i].lo, MIN(r[i].hi, 0x10FFFFu)};
		if (is_surrogate(x.lo))
			x.lo = SURROGATES_END;
		if (is_surrogate(x.hi))
			x.hi = SURROGATES - 1;
		if (x.lo > x.hi)
			continue;
		bool joins = kept > 0 && (x.lo <= r[kept - 1].hi + 1 ||
			(x.lo == SURROGATES_END && r[kept - 1].hi == SURROGATES - 1));
		if (joins)
			r[kept - 1].hi = MAX(r[kept - 1].hi, x.hi);
		else
			r[kept++] = x;
	}
	return kept;
}

size_t range_negate(const struct grammar_range *r, size_t n,
		    struct grammar_range *out)
{
	size_t k = 0;
	uint32_t at = 0;
	for (size_t i = 0; i < n; i++) {
		if (r[i].lo > at)
			out[k++] = (struct grammar_range){at, r[i].lo - 1};
		at = r[i].hi + 1;
	}
	if (at <= 0x10FFFF)
		out[k++] = (struct grammar_range){at, 0x10FFFF};
	return k;
}

static uint32_t intern(struct row_pool *p, const struct row *row)
{
	uint32_t h = hash_bytes(0, row, sizeof *row) % BUCKETS;
	p->n_work += 20;
	for (uint32_t i = p->buckets[h]; i; i = p->chain[i])
		if (p->n_work++, memcmp(&p->rows[i], row, sizeof *row) == 0)
			return i;
	if (p->n == ROWS_MAX) {
		p->is_full = true;
		return ROW_DEAD;
	}
	if (p->n == p->cap) {
		p->cap *= 2;
		p->rows = xrealloc(p->rows, p->cap * sizeof *p->rows);
		p->chain = xrealloc(p->chain, p->cap * sizeof *p->chain);
	}
	p->rows[p->n] = *row;
	p->chain[p->n] = p->buckets[h];
	p->buckets[h] = p->n;
	return p->n++;
}

/* The part of sorted ranges that touches lo..hi. */
struct window {
	const struct grammar_range *r;
	size_t n;
	uint32_t lo, hi;
};

static struct window cut(struct row_pool *p, const struct window *w, uint32_t lo, uint32_t hi)
{
	struct window out = {w->r, w->n, MAX(lo, w->lo), MIN(hi, w->hi)};
	while (out.n && out.r[0].hi < out.lo)
		out.r++, out.n--;
	while (out.n && out.r[out.n - 1].lo > out.hi)
		out.n--;
	p->n_work += 2 + (w->n - out.n) / 4;
	return out;
}

static bool is_empty(const struct window *w)
{
	return w->n == 0 || w->lo > w->hi;
}

/* The row for the last n_left bytes of the characters that start at code point `block`. */
static uint32_t continuation(struct row_pool *p, const struct window *w,
			     uint32_t block, int n_left)
{
	if (n_left == 0)
		return is_empty(w) ? ROW_DEAD : ROW_DONE;
	if (is_empty(w))
		return ROW_DEAD;
	uint32_t size = 1u << (6 * n_left);
	bool is_all = w->r[0].lo <= block && w->r[0].hi >= block + size - 1 &&
		      w->lo == block && w->hi == block + size - 1;
	if (is_all && p->full[n_left])
		return p->full[n_left];
	struct row row = {{0}};
	for (uint32_t i = 0; i < 64; i++) {
		uint32_t lo = block + i * (size >> 6);
		struct window sub = cut(p, w, lo, lo + (size >> 6) - 1);
		row.next[0x80 + i] = (uint16_t)continuation(p, &sub, lo, n_left - 1);
	}
	uint32_t at = intern(p, &row);
	if (is_all)
		p->full[n_left] = at;
	return at;
}

/* Adds the characters lo..hi, whose encoding has 1 + n_left bytes, to the entries of
 * their lead bytes in `row`. */
static void add_leads(struct row_pool *p, const struct window *all, uint32_t lo,
		      uint32_t hi, int n_left, int first_lead, struct row *row)
{
	uint32_t size = 1u << (6 * n_left);
	for (uint32_t block = lo & ~(size - 1); block <= hi; block += size) {
		struct window w = cut(p, all, MAX(lo, block),
				      MIN(hi, block + size - 1));
		int lead = first_lead + (int)(block / size);
		row->next[lead] = (uint16_t)continuation(p, &w, block, n_left);
	}
}

uint32_t row_pool_class(struct row_pool *p, const struct grammar_range *r, size_t n)
{
	struct window all = {r, n, 0, 0x10FFFF};
	struct row row = {{0}};
	p->n_work = 0;
	if (n == 0)
		return ROW_DEAD;
	add_leads(p, &all, 0, 0x7F, 0, 0, &row);
	add_leads(p, &all, 0x80, 0x7FF, 1, 0xC0, &row);
	/* Surrogates U+D800..U+DFFF are no characters, so the three-byte range has a gap. */
	add_leads(p, &all, 0x800, 0xCFFF, 2, 0xE0, &row);
	add_leads(p, &all, 0xD000, 0xD7FF, 2, 0xE0, &row);
	add_leads(p, &all, 0xE000, 0xFFFF, 2, 0xE0, &row);
	add_leads(p, &all, 0x10000, 0x10FFFF, 3, 0xF0, &row);
	return intern(p, &row);
}
