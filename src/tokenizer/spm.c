/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/spm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define SPACE STR("\xE2\x96\x81")

static int hex_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that a piece like "<0x0A>" stands for; -1: s has another form. */
static int byte_of(struct str s)
{
	if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>')
		return -1;
	int high = hex_of(s.p[3]), low = hex_of(s.p[4]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool spm_decode(struct str spelling, struct buf *out)
{
	int byte = byte_of(spelling);
	if (byte >= 0) {
		char c = (char)byte;
		buf_add(out, &c, 1);
		return false;
	}
	for (size_t i = 0; i < spelling.n;) {
		struct str rest = {spelling.p + i, spelling.n - i};
		bool is_space = str_starts(rest, SPACE);
		buf_add(out, is_space ? " " : rest.p, 1);
		i += is_space ? SPACE.n : 1;
	}
	return memchr(spelling.p, ' ', spelling.n) == NULL;
}

static bool is_reachable(const struct vocab *v, int32_t id)
{
	return vocab_has(v, id, VOCAB_PIECE | VOCAB_BYTES) &&
	       !vocab_has(v, id, VOCAB_SPECIAL);
}

/* The only character of s; UTF8_BAD if s does not have exactly one. */
static uint32_t only_char(struct str s)
{
	uint32_t cp = UTF8_BAD;
	return s.n && utf8_decode(s, &cp) == s.n ? cp : UTF8_BAD;
}

static enum status add_alphabet(struct bpe *b, const struct vocab *v, struct fail *fail)
{
	for (int32_t id = 0; id < v->n; id++) {
		struct str s = v->entries[id].bytes;
		uint32_t cp = is_reachable(v, id) ? only_char(s) : UTF8_BAD;
		if (cp != UTF8_BAD)
			u64map_put(&b->chars, cp, (uint64_t)id);
	}
	for (int i = 0; i < 256; i++) {
		char name[8];
		snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
		b->byte_id[i] = vocab_find(v, str_of(name));
		uint64_t id;
		/* A piece for an ASCII character itself: its byte is never spelled. */
		if (!vocab_has(v, b->byte_id[i], VOCAB_PIECE) && i < 0x80 &&
		    u64map_get(&b->chars, (uint64_t)i, &id))
			b->byte_id[i] = (int32_t)id;
		else if (!vocab_has(v, b->byte_id[i], VOCAB_PIECE))
			return fail_set(fail, E_UNSUPPORTED, "a SentencePiece vocabulary "
					"without a piece %s is not supported", name);
	}
	return OK;
}

/* Maps the bytes of each reachable piece to its id. */
static void index_pieces(const struct vocab *v, struct strmap *out)
{
	strmap_init(out, (size_t)v->n);
	for (int32_t id = 0; id < v->n; id++)
		if (is_reachable(v, id))
			strmap_put(out, v->entries[id].bytes, (uint32_t)id);
}

struct scored {
	float score;
	int32_t id;
};

static int by_score(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;
	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Adds a merge for each pair of pieces that together spell piece `id`. */
static void add_splits(struct bpe *b, const struct vocab *v, const struct strmap *ids,
		       int32_t id, uint32_t rank)
{
	struct str s = v->entries[id].bytes;
	for (size_t cut = 1; cut < s.n; cut++) {
		uint32_t left, right;
		if (strmap_get(ids, (struct str){s.p, cut}, &left) &&
		    strmap_get(ids, (struct str){s.p + cut, s.n - cut}, &right))
			bpe_add_merge(b, (int32_t)left, (int32_t)right, id, rank, false);
	}
}

/* Adds merges by descending score. Pieces of equal score share a rank, so the leftmost in
 * the text merges first. */
static enum status add_scored(struct bpe *b, const struct vocab *v,
			      const struct tokenizer_def *def, struct fail *fail)
{
	struct scored *all = xmalloc(((size_t)def->n_pieces + 1) * sizeof *all);
	struct strmap ids;
	size_t n = 0;
	uint32_t rank = 0;
	enum status st = OK;
	index_pieces(v, &ids);
	for (int32_t id = 0; id < def->n_pieces && st == OK; id++) {
		if (isnan(def->scores[id]))
			st = fail_set(fail, E_FORMAT, "piece %d has no score", id);
		if (is_reachable(v, id))
			all[n++] = (struct scored){def->scores[id], id};
	}
	qsort(all, n, sizeof *all, by_score);
	for (size_t i = 0; i < n && st == OK; i++) {
		rank += i > 0 && all[i].score < all[i - 1].score;
		add_splits(b, v, &ids, all[i].id, rank);
	}
	strmap_deinit(&ids);
	free(all);
	return st;
}

enum status spm_build(struct bpe *b, const struct vocab *v,
		      const struct tokenizer_def *def, struct fail *fail)
{
	b->by_char = true;
	enum status st = add_alphabet(b, v, fail);
	return st == OK && def->scores ? add_scored(b, v, def, fail) : st;
}

bool spm_takes_prefix(enum space_prefix kind, struct str text, bool is_first)
{
	if (kind == SPACE_NEVER || kind == SPACE_EACH)
		return kind == SPACE_EACH;
	return (kind == SPACE_UNLESS || is_first) && !str_starts(text, STR(" ")) &&
	       !str_starts(text, SPACE);
}

void spm_normalize(struct markview v, bool has_prefix, struct marked *out)
{
	size_t done = 0;
	ptrdiff_t at;
	if (has_prefix)
		marked_add(out, STR(" "), markview_least(v, 0, MIN(v.text.n, 1)));
	while ((at = str_find(v.text, SPACE, done)) >= 0) {
		size_t end = (size_t)at + SPACE.n;
		markview_copy(v, done, (size_t)at, out);
		marked_add(out, STR(" "), markview_least(v, (size_t)at, end));
		done = end;
	}
	markview_copy(v, done, v.text.n, out);
}
