/* SPDX-License-Identifier: Apache-2.0
 *
 * How many guessed tokens a decode step should verify, as functions of plain structs.
 *
 * A step of T tokens costs more than a step of one, by how much only this machine knows:
 * a struct draft_cost keeps what steps have lasted here. A guess is right with a
 * probability that depends on its match: a struct draft_trust counts it.
 * A draft is worth its width where it gives more tokens a second. A struct draft_account
 * bounds what a stream can lose by wrong guesses. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	DRAFT_MAX = 15,    /* guessed tokens of a sequence in a step */
	DRAFT_STEP = 32,   /* tokens of a step whose cost is kept */
	DRAFT_LENGTHS = 4, /* of matches: classes of them */
	DRAFT_CLASSES = 3 * DRAFT_LENGTHS + 1,
};
/* A guess has a mark: the length of its match, and what another match like it (lookup.h)
 * says of the first guess. */
enum {
	DRAFT_MODEL = 0,  /* no match: guesses of the model's own layer */
	DRAFT_SAME = 64,  /* added to the length: the same … */
	DRAFT_OTHER = 128 /* … or another token. Neither: there is no other match like it */
};
static inline int draft_mark(int match, int n_same)
{
	return match + (n_same > 0 ? DRAFT_SAME : n_same == 0 ? DRAFT_OTHER : 0);
}

/* What a request allows. */
struct draft_limits {
	int32_t n_max; /* guesses in a step at most; 0: none */
	int32_t n_min; /* fewer guesses are not verified */
	float p_min;   /* nor those that are less likely to be right */
};

/* Decode steps without prompt tokens, by their number of tokens. All zero: none yet. */
struct draft_cost {
	double us[DRAFT_STEP + 1];
	int n[DRAFT_STEP + 1]; /* steps seen; what was measured at start counts for two */
	/* The same of steps without guesses, by their streams: 2 of them may cost more than a
	 * token and a guess, which share experts and what attention reads. [1] is us[1]. */
	double plain[DRAFT_STEP + 1];
	int n_plain[DRAFT_STEP + 1];
	int last_plain; /* streams of the last such step; 0: there was none */
	int n_slow; /* steps with guesses in a row that lasted far longer than expected */
	/* us as measured at start; 0: not measured. Costs grow with the depth of the cache,
	 * but their ratios change little. */
	double start[DRAFT_STEP + 1];
	int n_refused[2];      /* drafts in a row that were not worth it: lookup, model */
	double guess_us;       /* one token guessed by the model's own layer … */
	int n_guess;           /* … times seen */
};
/* A step that took so long. */
void draft_cost_note(struct draft_cost *c, int n_tok, int64_t us);
/* The same without guesses: what made it slower or faster than before, as a deeper cache
 * does, makes all widths so. */
void draft_cost_note_plain(struct draft_cost *c, int n_tok, int64_t us);
/* n guesses one behind the other (of several streams at once) took so long. */
void draft_guess_note(struct draft_cost *c, int n, int64_t us);
/* A step of n_tok tokens, measured at start. */
void draft_cost_begin(struct draft_cost *c, int n_tok, double us);

/* Guesses that could be checked, and those that were right, fading. All zero: none. */
struct draft_trust {
	double right[DRAFT_CLASSES], tried[DRAFT_CLASSES];
};
/* n_right of n guesses of such a mark held; n_right < n: the next one
 * did not, and the others say nothing. In `own` newer evidence counts more than in `all`,
 * which is that of all sequences. */
void draft_trust_note(struct draft_trust *own, struct draft_trust *all, int mark, int n,
		      int n_right);
/* Probability that one more guess is right where those before it were. What is known of
 * all sequences stands in where little is known of this one. */
double draft_trust_of(const struct draft_trust *own, const struct draft_trust *all, int mark);

/* What guesses have cost a stream. All zero: a stream that begins.
 * lost: what its own have cost beyond what they brought, in tokens: a token costs what it
 * does without guesses.
 * late: by how many steps without guesses it is behind where it would be without them, those
 * of other streams included: these make its steps longer, and bring it nothing. */
struct draft_account {
	double lost, late;
};
/* What the stream may lose in the next step. Over all steps that is DRAFT_START tokens, and
 * DRAFT_SHARE of those it has. A step that takes far longer than expected may exceed it: it
 * is charged with twice its expected cost, and the debt is at most a token. */
#define DRAFT_START 4.0
#define DRAFT_SHARE 0.005
double draft_account_left(const struct draft_account *a);
/* A step gave the stream 1 + n_right tokens, by guesses that cost `paid` tokens. */
void draft_account_note(struct draft_account *a, double paid, int n_right);
/* How many steps the guesses of other streams may hold this one up in the next. Over all its
 * steps that is DRAFT_LATE, and DRAFT_LATE_SHARE of its tokens, with the same debt at
 * most. */
#define DRAFT_LATE 3.0
#define DRAFT_LATE_SHARE 0.01
double draft_patience(const struct draft_account *a);
/* A step gave the stream 1 + n_right tokens, and all guesses in it held it up by so many
 * steps (draft_delay). */
void draft_late_note(struct draft_account *a, double steps, int n_right);
/* By how many steps without guesses a step was longer than such a one. It lasted so long,
 * with a token of each of n_streams and n_all guesses. */
double draft_delay(const struct draft_cost *c, int n_streams, int n_all, int64_t us);
/* What n of the n_all guesses of a step have cost, in tokens. It lasted so long, with a token
 * of each of n_streams before the guesses. */
double draft_paid(const struct draft_cost *c, int n_streams, int n_all, int n, int64_t us);

struct draft_step {
	int n_tok;         /* tokens that the step has already */
	int n_streams;     /* how many of them are no guesses; 0: all, and no step was plain */
	double n_expected; /* tokens of output that these are expected to give */
	int max;           /* guesses that may be added */
	bool is_forced;    /* as many as may be, whatever they cost */
	bool is_model;     /* the model's own layer is to guess, which costs as well */
	const struct draft_account *account; /* of the stream; NULL: it may lose anything */
	double patience;   /* the least of the other streams', where there are others */
};
/* What n guesses more are expected to cost, in tokens. */
double draft_extra(const struct draft_cost *c, const struct draft_step *s, int n);
/* How many guesses of a sequence, each right with probability p, to add to the step; 0
 * where none is worth it. Now and then a draft is tried that looks too dear, where it did
 * not at start. */
int draft_width(struct draft_cost *c, const struct draft_step *s, double p);
/* The same within what a request allows: 0 instead of a width that it does not. */
int draft_allowed(const struct draft_limits *l, int width, double p);
/* Tokens of output that n guesses add on average. */
double draft_gain(double p, int n);
