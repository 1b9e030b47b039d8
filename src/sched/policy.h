/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scheduler decides, as functions of plain structs: no engine, no
 * clock, no request. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct policy_limits {
	int max_batch_tok; /* tokens in one step */
	int prefill_chunk; /* of those, prompt tokens beside running streams */
};

/* A sequence that holds pages. Arrays of them are ordered oldest first. */
struct policy_seq {
	int n_pending;    /* tokens it has and the cache has not; at least 1 */
	bool is_decoding; /* n_pending is 1: its newest token */
};

/* Tokens each sequence may feed to the next step, into out_n_tok (n). */
void policy_plan(const struct policy_limits *l, const struct policy_seq *seqs,
		 int n, int *out_n_tok);

/* Prompt tokens for a step beside running streams that is to last target_us, where one
 * has lately cost us_per_tok (0: not known yet). At most max; target_us 0: max. */
int policy_chunk(int max, int64_t target_us, double us_per_tok);

/* Sequences that may hold pages at once: each can decode in every step, and a
 * token of room is left for prefill. */
int policy_slots(int max_seqs, int max_batch_tok);

int policy_pages(int n_tok, int page_size); /* rounded up */

struct policy_room {
	int pages_free;
	int page_size;
	int n_running;  /* sequences with pages, and those promised some */
};
/* May a sequence start that needs new pages for n_need_tok tokens now and may
 * go on for n_growth_tok more? */
bool policy_admits(const struct policy_room *room, int n_need_tok,
		   int n_growth_tok);
