/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary: for each id its spelling, its bytes and whether it is an added token.
 * Thread: any, once built.
 */
#pragma once
#include "base/arena.h"
#include "base/map.h"
#include "tokenizer/normalize.h"
#include "tokenizer/tokenizer.h"

enum { VOCAB_PIECE = 1, VOCAB_BYTES = 2, VOCAB_ADDED = 4, VOCAB_SPECIAL = 8 };

struct vocab_entry {
	struct str bytes; /* decoded bytes of the token */
	/* bits. PIECE: in the model's vocabulary. BYTES: spelled in the byte-level
	 * alphabet too, so that merging can reach it. ADDED: an added token. SPECIAL: a
	 * control token. */
	unsigned char flags;
};

struct vocab {
	struct arena arena;
	struct vocab_entry *entries;
	int32_t n;
	struct strmap by_spelling; /* spelling of a piece or added token to its id */
};

/* Takes the pieces and added tokens of def after checking them: all are UTF-8, no
 * spelling and no id belongs to two tokens, and ids are in bounds. E_FORMAT names the
 * faulty entry. */
enum status vocab_init(struct vocab *v, const struct tokenizer_def *def,
		       const struct normalizer *normal, struct fail *fail) MUST_USE;
void vocab_deinit(struct vocab *v);
/* The id with this spelling; -1: none. */
int32_t vocab_find(const struct vocab *v, struct str spelling);
/* True if id is a valid index and its entry has all bits of `flags`. */
bool vocab_has(const struct vocab *v, int32_t id, int flags);
/* The text by which an added token is found in a prompt. A normalized token is found by its
 * normal form: what `normal` (NULL: nothing) makes of it, and its text with spaces replaced, if
 * def says so. v's arena owns the result. */
struct str vocab_added_text(struct vocab *v, const struct tokenizer_def *def,
			    const struct normalizer *normal, const struct added_token *token);
