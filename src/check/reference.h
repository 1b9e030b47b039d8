/* SPDX-License-Identifier: Apache-2.0
 *
 * reference.json: prompts, and the log-probabilities that an independent implementation
 * gave for them. Thread: any.
 */
#pragma once
#include "base/arena.h"

#define REFERENCE_MAX_TOP 20

struct reference_step {
	int n_top; /* candidates of this step, best first */
	int32_t id[REFERENCE_MAX_TOP];
	double logprob[REFERENCE_MAX_TOP];
};

struct reference_case {
	const char *prompt, *text; /* the ids' text; NULL: not given */
	const int32_t *ids;        /* (n_prompt + n_next): prompt, continuation */
	int n_prompt, n_next;
	/* (n_prompt - 1) log-probabilities of the prompt's tokens from the second one on;
	 * NULL: not given */
	const double *logprobs;
	const struct reference_step *steps; /* (n_next) */
};

struct reference {
	struct arena arena;
	struct reference_case *cases;
	int n_cases;
	int32_t max_id; /* the largest token id in the file */
	int max_tok;    /* prompt and continuation of the longest case */
	/* How far the reference's own fast path, which rounds activations to 8 bits, is from
	 * the cases: largest and mean difference of a log-probability; 0: not given. */
	double peer_max, peer_mean;
};

/* E_FORMAT names the case and key at fault. */
enum status reference_load(const char *path, struct reference *out,
			   struct fail *fail) MUST_USE;
void reference_deinit(struct reference *r);
