/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer in the making: a sequence with its sampler and its parser. Thread:
 * engine.
 *
 * Its history is the prompt and then its output. What the cache does not hold of
 * it is pending; when nothing is, the next token can be drawn. So a new prompt, a
 * decode step and the recomputation after a preemption are one and the same thing:
 * feed what is pending.
 */
#pragma once
#include "engine/engine.h"
#include "sched/draft.h"
#include "sched/emit.h"
#include "sched/guard.h"
#include "sched/lookup.h"
#include "sched/request.h"

/* X(name, states that may follow). The diagram is in request.h. */
#define CHOICE_STATES(X) \
	X(QUEUED, TO(PREFILL) | TO_END) \
	X(PREFILL, TO(DECODE) | TO(PREEMPTED) | TO_END) \
	X(DECODE, TO(DONE) | TO(PREEMPTED) | TO_END) \
	X(PREEMPTED, TO(PREFILL) | TO_END) \
	X(DONE, 0) \
	X(FAILED, 0) \
	X(CANCELLED, 0)

enum choice_state {
#define X(name, next) CHOICE_##name,
	CHOICE_STATES(X)
#undef X
};

/* The logits behind a token of the last step: row i_row of those of slice i_slice. */
struct choice_row {
	struct engine *engine;
	int i_slice, i_row;
};

struct sched_choice {
	struct request *r;
	int index;
	enum choice_state state;
	struct engine_seq *seq; /* PREFILL and DECODE only */
	/* What the disk has of its history, on its way into the cache; NULL: nothing, or it
	 * has arrived. */
	struct engine_fetch *fetch;
	bool has_asked_disk;
	int64_t fetch_until_us; /* then it is computed after all */
	int n_fetched; /* tokens that came that way */
	struct ids output;
	int32_t max_output;
	int32_t n_scored;    /* tokens of the prompt whose likelihood has been told */
	int32_t n_reasoning; /* tokens inside it so far */
	int n_forced;        /* of the request's close_ids, each time around */
	int64_t last_token_us;
	enum finish finish; /* once DONE */

	struct sampler *sampler;
	struct guard guard; /* kept over a preemption */
	struct outparse *parse;
	struct detok detok;
	struct buf text; /* of one token, between the two */

	/* Guesses of the next tokens (draft.h). The step's slice is the newest token and
	 * n_draft guesses behind it. */
	struct lookup lookup;
	struct draft_trust trust;
	struct draft_account account;
	int32_t draft[1 + DRAFT_MAX];
	int n_draft, draft_mark;
	/* draft[1] is lookup's guess, though it is not verified: the next token shows whether
	 * it was right. */
	bool has_idle_guess;
};

/* Asserts that the edge exists. */
void choice_set_state(struct sched_choice *c, enum choice_state next);
static inline bool choice_is_running(const struct sched_choice *c)
{
	return c->state == CHOICE_PREFILL || c->state == CHOICE_DECODE;
}
static inline bool choice_is_over(const struct sched_choice *c)
{
	return c->state >= CHOICE_DONE;
}

/* The request's choices, all QUEUED, without the memory of running ones. */
struct sched_choice *choices_create(struct request *r, int32_t n_ctx);
void choices_destroy(struct request *r); /* their seq must be gone */

/* The sampler, parser and grammar, when it first leaves the queue. */
void choice_begin(struct sched_choice *c, const struct tokenizer *t,
		  const struct grammar_vocab *vocab, int32_t n_vocab);

/* Frees what only a choice that still draws needs, its output included. */
void choice_release(struct sched_choice *c);

/* Does the client want log-probabilities of prompt tokens? Then the engine must compute
 * logits of the whole prompt, so no token may come out of the cache. */
bool choice_scores(const struct sched_choice *c);
/* Emits the log-probabilities of prompt tokens. logits: (n, n_vocab) f32, the rows of the
 * slice of n prompt tokens that the engine has just computed. E_BACKEND. */
enum status choice_score(struct sched_choice *c, const float *logits, int n,
			 int32_t n_vocab, struct emit *em) MUST_USE;

const struct ids *choice_prompt(const struct sched_choice *c);
int choice_length(const struct sched_choice *c); /* tokens of its history */
/* Appends all tokens of the prompt and of the answer to out. */
void choice_history(const struct sched_choice *c, struct ids *out);
/* The next pending tokens in one piece: at most n_max of them. Sets n and
 * n_logits: 1 when they are the last pending ones, n where choice_scores. Drops a draft. */
struct engine_slice choice_slice(struct sched_choice *c, int n_max);

/* Guess at most `max` tokens behind the newest one, into draft. Returns how many; those that
 * another earlier place contradicts only where is_all. */
int choice_guess(struct sched_choice *c, int max, bool is_all);
/* The newest token, into draft. Guesses of others go behind it. */
int32_t choice_begin_draft(struct sched_choice *c);
/* The slice that verifies the first n guesses. */
struct engine_slice choice_draft_slice(struct sched_choice *c, int n);
/* Draw the next token from its row of logits, then accept the tokens that the grammar
 * forces behind it. Emit each with its text, and the end behind the last one, which sets
 * finish. The caller changes the state. The whole row is fetched only if the known part
 * does not decide. E_BACKEND, E_INVAL as sampler_next; E_LIMIT from a grammar. */
enum status choice_draw(struct sched_choice *c, const struct choice_row *row,
			struct emit *em) MUST_USE;
/* The same from the rows of choice_draft_slice, the first of which is `row`: goes on as
 * long as what was drawn is what was guessed. *out_n_right guesses were right. */
enum status choice_draw_drafted(struct sched_choice *c, struct choice_row row, struct emit *em,
				int *out_n_right) MUST_USE;
/* No next token: emit what is held back; finish is FINISH_LENGTH. */
void choice_cut(struct sched_choice *c, struct emit *em);
