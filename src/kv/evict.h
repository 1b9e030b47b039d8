/* SPDX-License-Identifier: Apache-2.0
 *
 * What to give up first when a store is full: a pure function of plain structs. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct evict_item {
	int64_t bytes;
	int32_t first_tok, n_tok; /* it holds pages of the prompt's tokens [first_tok, n_tok) … */
	int32_t state_tok;        /* … and the recurrent state after so many tokens; 0: none */
	int64_t used_s;           /* seconds, of any clock: last use */
	bool is_needed;           /* true: what other items hold is of no use without it */
};

/* Index of the item that is worth the least, by cost for its size and by age. An item that others
 * need is chosen only if there is no other. -1: there are no items. */
int evict_choose(const struct evict_item *items, int n, int64_t now_s);
