/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompt lookup: drafts a text's next tokens from the text itself. The draft is the tokens
 * that followed the longest earlier occurrence of the text's last tokens. It reads no
 * weights, and is right where an answer quotes, edits or repeats.
 *
 * Memory is 12 to 20 bytes a token. Adding a token takes constant time, a draft at most
 * LOOKUP_TRIES comparisons. Thread: one at a time.
 */
#pragma once
#include "tokenizer/tokenizer.h"

enum {
	LOOKUP_GRAM = 3,   /* so many tokens must match for a draft */
	LOOKUP_TRIES = 16, /* earlier occurrences compared, the latest first */
	LOOKUP_LONG = 32   /* tokens; longer matches count as this long */
};

/* All zero: an empty text. */
struct lookup {
	struct ids text;
	/* (text.n) where the gram that ends at this token ended before; -1: nowhere. */
	int32_t *before;
	/* (n_heads, a power of two) by a gram's hash: where it ended last; -1: nowhere. */
	int32_t *head;
	size_t cap, n_heads;
};

void lookup_deinit(struct lookup *l);
/* Appends n ids to the text. */
void lookup_add(struct lookup *l, const int32_t *ids, size_t n);
struct lookup_match {
	int n; /* the match's length in tokens, LOOKUP_GRAM to LOOKUP_LONG */
	/* The next longest match has the same first n_same draft tokens. -1: there is no second
	 * match, or it is less than half as long. */
	int n_same;
};
/* Drafts at most `max` next tokens, into out. Returns how many; 0: the text's end occurs
 * nowhere before. */
int lookup_draft(const struct lookup *l, int max, int32_t *out, struct lookup_match *match);
