/* SPDX-License-Identifier: Apache-2.0
 *
 * What every id is: its spelling, its bytes, whether it was added. Thread: any
 * once built.
 */
#pragma once
#include "base/arena.h"
#include "base/map.h"
#include "tokenizer/tokenizer.h"

enum { VOCAB_PIECE = 1, VOCAB_BYTES = 2, VOCAB_ADDED = 4, VOCAB_SPECIAL = 8 };

struct vocab_entry {
	struct str bytes; /* raw, for decoding */
	/* PIECE: in the model's vocabulary; BYTES: and spelled in the byte-level
	 * alphabet, so that merging can reach it; ADDED, SPECIAL */
	unsigned char flags;
};

struct vocab {
	struct arena arena;
	struct vocab_entry *entries;
	int32_t n;
	struct strmap by_spelling; /* pieces and added tokens */
};

/* Pieces and added tokens of def, checked: UTF-8, no spelling and no id used twice
 * by different tokens, ids in bounds. E_FORMAT names the place. */
enum status vocab_init(struct vocab *v, const struct tokenizer_def *def,
		       struct fail *fail) MUST_USE;
void vocab_deinit(struct vocab *v);
/* Id of a spelling, or -1. */
int32_t vocab_find(const struct vocab *v, struct str spelling);
/* Whether id is a valid index with all of `flags`. */
bool vocab_has(const struct vocab *v, int32_t id, int flags);
/* The text an added token is found by: where it is normalized, in NFC or with spaces as
 * def says. In v's arena. */
struct str vocab_added_text(struct vocab *v, const struct tokenizer_def *def,
			    const struct added_token *token);
