/* SPDX-License-Identifier: Apache-2.0
 *
 * How many guessed tokens a decode step should verify, as functions of plain structs.
 *
 * A step of T tokens costs more than a step of one, by how much only this machine knows:
 * a struct draft_cost keeps what steps have lasted here. A guess is right with a
 * probability that depends on the length of its match: a struct draft_trust counts it.
 * A draft is worth its width where it gives more tokens a second. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	DRAFT_MAX = 15,    /* guessed tokens of a sequence in a step */
	DRAFT_STEP = 32,   /* tokens of a step whose cost is kept */
	DRAFT_CLASSES = 5, /* of matches by their length, and DRAFT_MODEL */
	DRAFT_MODEL = 0,   /* in place of a match: guesses of the model's own layer */
};

/* Decode steps without prompt tokens, by their number of tokens. All zero: none yet. */
struct draft_cost {
	double us[DRAFT_STEP + 1];
	int n[DRAFT_STEP + 1]; /* steps seen */
	int n_refused;         /* drafts in a row that were not worth it */
	double guess_us;       /* one token guessed by the model's own layer … */
	int n_guess;           /* … times seen */
};
void draft_cost_note(struct draft_cost *c, int n_tok, int64_t us);
/* n guesses one behind the other (of several streams at once) took so long. */
void draft_guess_note(struct draft_cost *c, int n, int64_t us);

/* Of a sequence: guesses verified, and those that were right, fading. All zero: none. */
struct draft_trust {
	double right[DRAFT_CLASSES], tried[DRAFT_CLASSES];
};
/* n_right of n guesses held, behind a match of so many tokens; n_right < n: the next one
 * did not, and the others say nothing. */
void draft_trust_note(struct draft_trust *t, int match, int n, int n_right);
/* Probability that one more guess is right where those before it were. */
double draft_trust_of(const struct draft_trust *t, int match);

struct draft_step {
	int n_tok;         /* tokens that the step has already */
	double n_expected; /* tokens of output that these are expected to give */
	int max;           /* guesses that may be added */
	bool is_forced;    /* as many as may be, whatever they cost */
	bool is_model;     /* the model's own layer is to guess, which costs as well */
};
/* How many guesses of a sequence, each right with probability p, to add to the step; 0
 * where none is worth it. Now and then a draft is tried that looks too dear, since costs
 * change with the depth of the cache. */
int draft_width(struct draft_cost *c, const struct draft_step *s, double p);
/* Tokens of output that n guesses add on average. */
double draft_gain(double p, int n);
