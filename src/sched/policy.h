/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's decisions, as functions of plain structs, without engine, clock or
 * requests. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct policy_limits {
	int max_batch_tok; /* tokens in one step */
	int prefill_chunk; /* of those, prompt tokens beside running streams */
	int alone_chunk;   /* of those, prompt tokens where there is no stream; 0: all */
};

/* A sequence that holds pages. Arrays of them are in the order of the line (policy.c). */
struct policy_seq {
	int n_pending;    /* tokens of it that the cache does not hold; at least 1 */
	bool is_decoding; /* its pending tokens are output, mostly the newest token alone */
};

/* Tokens each sequence may feed to the next step, into out_n_tok (n). */
void policy_plan(const struct policy_limits *l, const struct policy_seq *seqs,
		 int n, int *out_n_tok);

/* The cost of a step with n prompt tokens: step_us + tok_us * n. All zero: not known yet. */
struct policy_cost {
	double step_us, tok_us;
	double step_var, tok_var, both_var; /* variances and covariance of the two costs */
	bool is_short; /* the next step has fewer tokens, to tell the two costs apart */
};

/* Records that a step with n > 0 prompt tokens lasted us. */
void policy_cost_note(struct policy_cost *c, int n, int64_t us);

/* Prompt tokens for a step beside running streams. The step shall last target_us, or
 * longer if the fixed cost alone takes most of that. Every other step gets two thirds of
 * the tokens, which tells the two costs apart. At most max; target_us 0: max. */
int policy_chunk(int max, int64_t target_us, const struct policy_cost *c);

/* Prompt tokens for a step without a stream: at most max. Beyond 512, as many as take one
 * second, because a new request may have to wait for the whole step. */
int policy_alone_chunk(int max, const struct policy_cost *c);

/* Microseconds to wait for the disk to read n prompt tokens: as long as computing them in
 * steps of 512 would take, and at least a second. Before any prompt was computed, a
 * thousand tokens count as a second. */
int64_t policy_patience(const struct policy_cost *c, int n);

/* Sequences that may hold pages at once. Each can decode in every step, and a step has room
 * for at least one prompt token. */
int policy_slots(int max_seqs, int max_batch_tok);

int policy_pages(int n_tok, int page_size); /* rounded up */

struct policy_capacity {
	int pages_free;
	int page_size;
	int n_running;  /* sequences that hold pages, and those promised a slot */
};
/* May a sequence start that needs new pages for n_need_tok tokens now and may
 * go on for n_growth_tok more? */
bool policy_admits(const struct policy_capacity *capacity, int n_need_tok,
		   int n_growth_tok);
