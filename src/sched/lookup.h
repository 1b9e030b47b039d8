/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompt lookup: guesses how a text goes on from what it says already. The guess is the
 * tokens that followed the longest earlier occurrence of the text's last tokens. It costs
 * no weights, and holds where an answer quotes, edits or repeats.
 *
 * Memory is 12 to 20 bytes a token. Adding a token takes constant time, a guess at most
 * LOOKUP_TRIES comparisons. Thread: one at a time.
 */
#pragma once
#include "tokenizer/tokenizer.h"

enum {
	LOOKUP_GRAM = 3,   /* tokens that must be the same for a guess */
	LOOKUP_TRIES = 16, /* earlier occurrences that are compared, the latest first */
	LOOKUP_LONG = 32   /* tokens; a match is not measured beyond this length */
};

/* All zero: an empty text. */
struct lookup {
	struct ids text;
	/* (text.n) where the gram that ends here ended before; -1: nowhere. */
	int32_t *before;
	/* (n_heads, a power of two) by a gram's hash, where it ended last; -1: nowhere. */
	int32_t *head;
	size_t cap, n_heads;
};

void lookup_deinit(struct lookup *l);
/* The text goes on with ids (n). */
void lookup_add(struct lookup *l, const int32_t *ids, size_t n);
struct lookup_match {
	int n; /* its length in tokens, LOOKUP_GRAM to LOOKUP_LONG */
	/* So many guesses are the same behind the next longest match. -1: there is none, or
	 * it is less than half as long. */
	int n_same;
};
/* At most `max` tokens that may follow, into out. Returns how many, 0 where the text's end
 * is new. */
int lookup_guess(const struct lookup *l, int max, int32_t *out, struct lookup_match *match);
