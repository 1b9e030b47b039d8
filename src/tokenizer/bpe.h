/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair merging of one word, as cut out by the pre-tokenizer. Thread: any, once the
 * struct bpe is built. A struct bpe_work belongs to one thread.
 */
#pragma once
#include "base/map.h"
#include "tokenizer/tokenizer.h"

struct bpe {
	struct u64map merges; /* key: left id << 32 | right id; value: rank << 32 | merged id */
	struct strmap words;  /* words whose whole text is one token, with the token's id */
	struct u64map parts;  /* id of a special token to the pair of ids whose merge would make
			       * it */
	int32_t byte_id[256]; /* id of each one-byte piece; -1: the byte has no piece */
	/* Merging starts from characters, not bytes. A character without a piece starts
	 * as its bytes. */
	bool by_char;
	struct u64map chars;  /* code point to token id; used with by_char only */
	int32_t unk_id;       /* id for bytes without a piece; -1: such bytes are dropped */
	bool fuse_unk;        /* a run of unknown bytes becomes one unknown token */
	size_t max_word;      /* length in bytes of the longest key in `words` */
};

void bpe_init(struct bpe *b, size_t n_merges);
void bpe_deinit(struct bpe *b);
/* Adds a merge. The lowest rank is merged first, and of equal ranks the leftmost. If a pair is
 * added twice, the later merge counts. If `merged` is a special token, encoding emits its two
 * parts instead, because control tokens come from added tokens alone. */
void bpe_add_merge(struct bpe *b, int32_t left, int32_t right, int32_t merged,
		   uint32_t rank, bool is_special);
/* Records that `word` is token `id`. Encoding looks it up before any merging. The bytes
 * of word must outlive b. */
void bpe_add_word(struct bpe *b, struct str word, int32_t id);

/* Scratch memory of bpe_encode; starts zeroed. */
struct bpe_work {
	struct bpe_symbol *symbols;
	uint64_t *heap; /* entries: rank << 32 | position of the left symbol */
	size_t cap, n_heap;
};
void bpe_work_deinit(struct bpe_work *w);

/* Appends the ids of word (word.n > 0). Time O(n log n). Errors: E_NOMEM. */
enum status bpe_encode(const struct bpe *b, struct bpe_work *w, struct str word,
		       struct ids *out) MUST_USE;
