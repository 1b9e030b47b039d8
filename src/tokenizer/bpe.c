/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair merging. A word starts as one symbol per byte (with by_char: per character).
 * As long as two neighbours have a merge, the pair of lowest rank becomes one symbol.
 * Among equal ranks the leftmost goes first. Three algorithms give the same ids, and the
 * cheapest that applies is used:
 *
 * 1. The whole word is one piece, and merging is known to end there (bpe_add_word). Most
 * words of a text take this path.
 * 2. Words of up to SHORT symbols keep the ranks in an array. Each merge searches the
 * minimum and closes the gap. This is quadratic, but in a few cache lines.
 * 3. Longer words use a linked list of symbols and a heap of (rank, position). A merge
 * leaves stale heap entries: an entry is stale if the pair at its position now has
 * another rank. Each merge removes a symbol and adds at most two entries. The cost is O(n
 * log n), also for a megabyte of one character.
 *
 * We tried a cache of recent words on top: it gained nothing.
 */
#include "tokenizer/bpe.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define NO_RANK UINT32_MAX
#define SHORT 48

struct bpe_symbol {
	int32_t id; /* -1: this symbol was merged into the one before */
	uint32_t prev, next;
};
#define NONE UINT32_MAX

void bpe_init(struct bpe *b, size_t n_merges)
{
	*b = (struct bpe){.unk_id = -1};
	u64map_init(&b->merges, n_merges);
	strmap_init(&b->words, 0);
	u64map_init(&b->parts, 0);
	u64map_init(&b->chars, 0);
	memset(b->byte_id, 0xFF, sizeof b->byte_id);
}

void bpe_deinit(struct bpe *b)
{
	u64map_deinit(&b->merges);
	strmap_deinit(&b->words);
	u64map_deinit(&b->parts);
	u64map_deinit(&b->chars);
}

static uint64_t pair_key(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

void bpe_add_merge(struct bpe *b, int32_t left, int32_t right, int32_t merged,
		   uint32_t rank, bool is_special)
{
	uint64_t key = pair_key(left, right);
	u64map_put(&b->merges, key, (uint64_t)rank << 32 | (uint32_t)merged);
	if (is_special)
		u64map_put(&b->parts, (uint32_t)merged, key);
}

void bpe_add_word(struct bpe *b, struct str word, int32_t id)
{
	strmap_put(&b->words, word, (uint32_t)id);
	b->max_word = MAX(b->max_word, word.n);
}

void bpe_work_deinit(struct bpe_work *w)
{
	free(w->symbols);
	free(w->heap);
	*w = (struct bpe_work){0};
}

static uint32_t pair_rank(const struct bpe *b, int32_t left, int32_t right,
			  int32_t *out_merged)
{
	uint64_t v;
	if (!u64map_get(&b->merges, pair_key(left, right), &v))
		return NO_RANK;
	*out_merged = (int32_t)(uint32_t)v;
	return (uint32_t)(v >> 32);
}

/* Appends id, or its parts if it is a control token: merging must not end in one (see
 * bpe.h). Each part is shorter than the whole, so the recursion ends. A piece of one byte
 * has no parts. */
static void add_id(const struct bpe *b, struct ids *out, int32_t id)
{
	uint64_t pair;
	if (b->parts.n == 0 ||
	    !u64map_get(&b->parts, (uint32_t)id, &pair)) {
		ids_add(out, id);
		return;
	}
	add_id(b, out, (int32_t)(pair >> 32));
	add_id(b, out, (int32_t)(uint32_t)pair);
}

/* Writes one id per character of word. A character without a piece becomes one id per
 * byte; every byte has a piece. */
static size_t first_chars(const struct bpe *b, struct str word, size_t *i, int32_t *out,
			  size_t max)
{
	size_t n = 0;
	while (*i < word.n) {
		uint32_t cp;
		uint64_t id;
		size_t len = utf8_decode((struct str){word.p + *i, word.n - *i}, &cp);
		if (n + len > max)
			break;
		if (cp != UTF8_BAD && u64map_get(&b->chars, cp, &id))
			out[n++] = (int32_t)id;
		else
			for (size_t k = 0; k < len; k++)
				out[n++] = b->byte_id[(unsigned char)word.p[*i + k]];
		*i += len;
	}
	return n;
}

/* Writes one id per byte of word, at most word.n ids. A byte without a piece becomes the
 * unknown token. If the vocabulary has none, the byte is dropped, as in Hugging Face. */
static size_t first_ids(const struct bpe *b, struct str word, size_t *i,
			int32_t *out, size_t max)
{
	size_t n = 0;
	if (b->by_char)
		return first_chars(b, word, i, out, max);
	for (; *i < word.n && n < max; (*i)++) {
		int32_t id = b->byte_id[(unsigned char)word.p[*i]];
		if (id < 0) {
			id = b->unk_id;
			bool follows = *i > 0 &&
				b->byte_id[(unsigned char)word.p[*i - 1]] < 0;
			if (id < 0 || (b->fuse_unk && follows))
				continue;
		}
		out[n++] = id;
	}
	return n;
}

static void merge_short(const struct bpe *b, struct str word, struct ids *out)
{
	int32_t ids[SHORT], merged[SHORT];
	uint32_t rank[SHORT]; /* rank[i]: rank of the merge of symbols i and i + 1 */
	size_t at = 0, n = first_ids(b, word, &at, ids, SHORT);
	for (size_t i = 0; i + 1 < n; i++)
		rank[i] = pair_rank(b, ids[i], ids[i + 1], &merged[i]);
	while (n > 1) {
		size_t best = 0;
		for (size_t i = 1; i + 1 < n; i++)
			if (rank[i] < rank[best])
				best = i;
		if (rank[best] == NO_RANK)
			break;
		ids[best] = merged[best];
		n--;
		for (size_t i = best + 1; i < n; i++) {
			ids[i] = ids[i + 1];
			rank[i - 1] = rank[i];
			merged[i - 1] = merged[i];
		}
		if (best > 0)
			rank[best - 1] = pair_rank(b, ids[best - 1], ids[best],
						   &merged[best - 1]);
		if (best + 1 < n)
			rank[best] = pair_rank(b, ids[best], ids[best + 1],
					       &merged[best]);
	}
	for (size_t i = 0; i < n; i++)
		add_id(b, out, ids[i]);
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
	uint64_t key = heap[i];
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= key)
			break;
		heap[i] = heap[child];
	}
	heap[i] = key;
}

static void heap_push(struct bpe_work *w, uint64_t key)
{
	size_t i = w->n_heap++;
	while (i > 0 && w->heap[(i - 1) / 2] > key) {
		w->heap[i] = w->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	w->heap[i] = key;
}

static uint64_t heap_pop(struct bpe_work *w)
{
	uint64_t top = w->heap[0];
	w->heap[0] = w->heap[--w->n_heap];
	sift_down(w->heap, w->n_heap, 0);
	return top;
}

/* Makes the heap entry for the pair that begins at symbol i. False: the pair has no
 * merge. */
static bool pair_entry(const struct bpe *b, const struct bpe_symbol *s, uint32_t i,
		       uint64_t *out_key, int32_t *out_merged)
{
	if (s[i].id < 0 || s[i].next == NONE)
		return false;
	uint32_t rank = pair_rank(b, s[i].id, s[s[i].next].id, out_merged);
	*out_key = (uint64_t)rank << 32 | i;
	return rank != NO_RANK;
}

static enum status reserve(struct bpe_work *w, size_t n)
{
	if (n <= w->cap)
		return OK;
	/* The heap starts with n - 1 entries. Each of at most n - 1 merges pops one and
	 * pushes at most two. */
	struct bpe_symbol *s = realloc(w->symbols, n * sizeof *s);
	if (s)
		w->symbols = s;
	uint64_t *heap = realloc(w->heap, 2 * n * sizeof *heap);
	if (heap)
		w->heap = heap;
	if (!s || !heap)
		return E_NOMEM;
	w->cap = n;
	return OK;
}

static size_t link_symbols(const struct bpe *b, struct bpe_symbol *s,
			   struct str word)
{
	size_t n = 0;
	for (size_t at = 0; at < word.n;) {
		int32_t ids[SHORT];
		size_t k = first_ids(b, word, &at, ids, SHORT);
		for (size_t i = 0; i < k; i++, n++)
			s[n] = (struct bpe_symbol){ids[i], (uint32_t)n - 1,
					       (uint32_t)n + 1};
	}
	if (n > 0) {
		s[0].prev = NONE;
		s[n - 1].next = NONE;
	}
	return n;
}

static enum status merge_long(const struct bpe *b, struct bpe_work *w,
			      struct str word, struct ids *out)
{
	enum status st = reserve(w, word.n);
	if (st != OK)
		return st;
	struct bpe_symbol *s = w->symbols;
	size_t n = link_symbols(b, s, word);
	uint64_t key;
	int32_t merged;
	w->n_heap = 0;
	for (uint32_t i = 0; i + 1 < n; i++)
		if (pair_entry(b, s, i, &key, &merged))
			w->heap[w->n_heap++] = key;
	for (size_t i = w->n_heap / 2; i-- > 0;)
		sift_down(w->heap, w->n_heap, i);
	while (w->n_heap > 0) {
		uint64_t top = heap_pop(w);
		uint32_t i = (uint32_t)top;
		if (!pair_entry(b, s, i, &key, &merged) || key != top)
			continue; /* stale: an earlier merge changed this pair */
		uint32_t gone = s[i].next;
		s[i].id = merged;
		s[i].next = s[gone].next;
		s[gone].id = -1;
		if (s[i].next != NONE)
			s[s[i].next].prev = i;
		if (s[i].prev != NONE &&
		    pair_entry(b, s, s[i].prev, &key, &merged))
			heap_push(w, key);
		if (pair_entry(b, s, i, &key, &merged))
			heap_push(w, key);
	}
	for (size_t i = 0; i < n; i++)
		if (s[i].id >= 0)
			add_id(b, out, s[i].id);
	return OK;
}

enum status bpe_encode(const struct bpe *b, struct bpe_work *w, struct str word,
		       struct ids *out)
{
	uint32_t id;
	if (word.n <= b->max_word && strmap_get(&b->words, word, &id)) {
		ids_add(out, (int32_t)id);
		return OK;
	}
	if (word.n > SHORT)
		return merge_long(b, w, word, out);
	merge_short(b, word, out);
	return OK;
}
