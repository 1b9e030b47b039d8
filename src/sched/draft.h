/* SPDX-License-Identifier: Apache-2.0
 *
 * How many draft tokens a decode step should verify, as functions of plain structs.
 *
 * A step of T tokens costs more than a step of one token. How much more depends on the
 * machine, so a struct draft_cost keeps how long steps lasted. A draft token is right with a
 * probability that depends on its match; a struct draft_trust counts it. A draft is worth
 * verifying if it gives more tokens a second. A struct draft_account bounds what a stream
 * can lose by wrong draft tokens. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	DRAFT_MAX = 15,    /* draft tokens of a sequence in one step */
	DRAFT_STEP = 32,   /* costs are kept for steps of up to so many tokens */
	DRAFT_LENGTHS = 4, /* classes of a match's length */
	DRAFT_CLASSES = 3 * DRAFT_LENGTHS + 1,
};
/* A draft token has a mark, which says how it was found: the length of its match, plus a constant
 * if there is a second match (lookup.h). */
enum {
	DRAFT_MODEL = 0,  /* no match: a token of a model */
	DRAFT_SAME = 64,  /* added to the length: the second match begins with the same token … */
	DRAFT_OTHER = 128 /* … or another one. Neither: there is no second match */
};
static inline int draft_mark(int match, int n_same)
{
	return match + (n_same > 0 ? DRAFT_SAME : n_same == 0 ? DRAFT_OTHER : 0);
}

/* What a request allows. */
struct draft_limits {
	int32_t n_max; /* draft tokens in a step at most; 0: none */
	int32_t n_min; /* a draft of fewer tokens is not verified */
	float p_min;   /* nor is one whose draft tokens are less likely to be right */
};

/* Costs of decode steps without prompt tokens, by their number of tokens, in us. All zero:
 * none known. */
struct draft_cost {
	double us[DRAFT_STEP + 1];
	int n[DRAFT_STEP + 1]; /* steps seen; a measurement at start counts as two */
	/* Costs of steps without drafts, by the number of streams. Two streams may cost
	 * more than one token and one draft token, which share experts and the keys that
	 * attention reads. [1] is not used: us[1] is that cost. */
	double plain[DRAFT_STEP + 1];
	int n_plain[DRAFT_STEP + 1];
	int last_plain; /* streams of the last step without drafts; 0: none so far */
	int n_slow; /* steps in a row that lasted far longer than expected */
	/* us as measured at start; 0: not measured. Costs grow with the depth of the cache,
	 * but their ratios change little. */
	double start[DRAFT_STEP + 1];
	int n_refused[2];      /* refused drafts in a row: lookup's, the model's */
	double draft_us;       /* cost of one token of the model that drafts … */
	int n_draft;           /* … and how often it was measured */
};
/* Records that a step of n_tok tokens lasted `us`. */
void draft_cost_note(struct draft_cost *c, int n_tok, int64_t us);
/* The same for a step without drafts. If it became slower or faster, as with a deeper
 * cache, the costs of all widths are scaled alike. */
void draft_cost_note_plain(struct draft_cost *c, int n_tok, int64_t us);
/* Records that n tokens of the model that drafts, one behind the other, lasted `us`.
 * Several streams may have drafted at once. */
void draft_model_note(struct draft_cost *c, int n, int64_t us);
/* Sets the cost of a step of n_tok tokens, measured at start. */
void draft_cost_begin(struct draft_cost *c, int n_tok, double us);

/* By class: draft tokens that were checked, and those that were right. Older ones fade. All
 * zero: no draft token yet. */
struct draft_trust {
	double right[DRAFT_CLASSES], tried[DRAFT_CLASSES];
};
/* Records that the first n_right of n draft tokens with this mark were right. If n_right < n,
 * the next one was wrong, and those behind it say nothing. `own` forgets old draft tokens faster
 * than `all`, which is shared by all sequences. */
void draft_trust_note(struct draft_trust *own, struct draft_trust *all, int mark, int n,
		      int n_right);
/* Probability that a draft token is right if those before it were. Where `own` has few draft
 * tokens, those of `all` decide. */
double draft_trust_of(const struct draft_trust *own, const struct draft_trust *all, int mark);

/* What draft tokens have cost one stream. All zero: a new stream.
 *   lost: tokens that its own draft tokens cost beyond what they brought. The unit is what a
 *   token costs without drafts.
 *   late: how many steps without drafts the stream is behind. Drafts of other streams
 *   count, too: they make its steps longer and bring it nothing.
 *   read: what reading its text into a model beside took, in steps without drafts. */
struct draft_account {
	double lost, late, read;
};
/* What the stream may lose in the next step, in tokens. Over all steps: DRAFT_START tokens,
 * and DRAFT_SHARE of the tokens it has. A step that takes far longer than expected may
 * exceed this: at most twice its expected cost is charged, and the debt is at most one
 * token. */
#define DRAFT_START 4.0
#define DRAFT_SHARE 0.005
double draft_account_left(const struct draft_account *a);
/* Records a step that gave the stream 1 + n_right tokens; its draft tokens cost `paid` tokens. */
void draft_account_note(struct draft_account *a, double paid, int n_right);
/* By how many steps the draft tokens of other streams may delay this one in the next step. Over
 * all its steps: DRAFT_LATE, and DRAFT_LATE_SHARE of its tokens; the debt is at most one
 * step. */
#define DRAFT_LATE 3.0
#define DRAFT_LATE_SHARE 0.01
double draft_patience(const struct draft_account *a);
/* Records a step that gave the stream 1 + n_right tokens and was longer by `steps` steps,
 * because of all draft tokens in it (draft_delay). */
void draft_late_note(struct draft_account *a, double steps, int n_right);
/* May a model read what it must for the stream? That may take DRAFT_READ_SHARE of the time of n_tok
 * tokens, and no longer than the other streams' patience. `us`: how long all of it will take, since
 * a text that is read in part is of no use. n_tok: tokens of the answer so far, or those to come if
 * these are fewer. */
#define DRAFT_READ_SHARE 0.25
struct draft_step;
bool draft_may_read(const struct draft_cost *c, const struct draft_step *s, int n_tok, double us);
/* Records that a model read for `us` before a step of n_streams: this stream's text, or another's,
 * for which it waited. */
void draft_read_note(const struct draft_cost *c, struct draft_account *a, int n_streams, int64_t us,
		     bool is_own);
/* How much longer a step was than one without drafts, in steps of the latter. It lasted
 * `us`, with one token of each of n_streams and n_all draft tokens. */
double draft_delay(const struct draft_cost *c, int n_streams, int n_all, int64_t us);
/* What n of the n_all draft tokens of a step cost, in tokens. The step lasted `us`, with one
 * token of each of n_streams and the draft tokens. */
double draft_paid(const struct draft_cost *c, int n_streams, int n_all, int n, int64_t us);

struct draft_step {
	int n_tok;         /* tokens in the step so far */
	/* of n_tok, the tokens that are not drafted, one a stream; 0: not known, and the
	 * costs of steps without drafts are not used */
	int n_streams;
	double n_expected; /* output tokens that n_tok are expected to give */
	int max;           /* further draft tokens at most */
	bool is_forced;    /* add as many draft tokens as possible, whatever they cost */
	bool is_model;     /* a model drafts, which costs time, too */
	bool is_awaited;   /* it has begun to read for this draft, which was worth it or a trial */
	const struct draft_account *account; /* of the stream; NULL: its loss is not bounded */
	double patience;   /* the smallest of the other streams, if there are others */
};
/* The expected cost of n further draft tokens, in tokens. */
double draft_extra(const struct draft_cost *c, const struct draft_step *s, int n);
/* How many draft tokens of a sequence to add to the step, each right with probability p; 0: none
 * is worth it. Sometimes a draft is tried that seems too costly now but was worth it by the
 * costs at start. */
int draft_width(struct draft_cost *c, const struct draft_step *s, double p);
/* width if the request allows it, else 0. */
int draft_allowed(const struct draft_limits *l, int width, double p);
/* Output tokens that n draft tokens add on average. */
double draft_gain(double p, int n);
