/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair merging of one word (what the pre-tokenizer cut out). Thread: any
 * once built; a struct bpe_work belongs to one.
 */
#pragma once
#include "base/map.h"
#include "tokenizer/tokenizer.h"

struct bpe {
	struct u64map merges; /* left << 32 | right -> rank << 32 | merged id */
	struct strmap words;  /* words that are one token as they stand -> id */
	struct u64map parts;  /* special id -> the pair it would be merged from */
	int32_t byte_id[256]; /* id of each one-byte piece, or -1 */
	/* A word begins as its characters; those that are no piece as their bytes. */
	bool by_char;
	struct u64map chars;  /* code point -> id; of by_char */
	int32_t unk_id;       /* for bytes without a piece; -1: left out */
	bool fuse_unk;        /* neighbouring unknown bytes become one */
	size_t max_word;      /* bytes of the longest key in `words` */
};

void bpe_init(struct bpe *b, size_t n_merges);
void bpe_deinit(struct bpe *b);
/* A merge of higher rank than all before; the last of two with one pair
 * counts. A special token that `merged` names is never the outcome: its parts
 * are, since control tokens come from added tokens alone. */
void bpe_add_merge(struct bpe *b, int32_t left, int32_t right, int32_t merged,
		   uint32_t rank, bool is_special);
/* Note that `word` is token id: looked up before any merging. The bytes must
 * outlive b. */
void bpe_add_word(struct bpe *b, struct str word, int32_t id);

/* Scratch of the calls below; starts zeroed. */
struct bpe_work {
	struct bpe_symbol *symbols;
	uint64_t *heap; /* rank << 32 | position of the left symbol */
	size_t cap, n_heap;
};
void bpe_work_deinit(struct bpe_work *w);

/* Append the ids of word (n > 0). O(n log n). E_NOMEM. */
enum status bpe_encode(const struct bpe *b, struct bpe_work *w, struct str word,
		       struct ids *out) MUST_USE;
