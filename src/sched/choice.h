/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer that is being generated: a sequence with its sampler and its parser. Thread:
 * engine.
 *
 * A choice's history is its prompt and then its output. Tokens of the history that the
 * cache does not hold are pending. When none is pending, the next token can be drawn. So a
 * new prompt, a decode step and the recomputation after a preemption are all one operation:
 * feed the pending tokens.
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

/* A row of logits of the last step: row i_row of slice i_slice. */
struct choice_row {
	struct engine *engine;
	int i_slice, i_row;
};

struct sched_choice {
	struct request *r;
	int index;
	enum choice_state state;
	struct engine_seq *seq; /* not NULL in PREFILL and DECODE only */
	/* Reads the part of its history that the disk has into the cache. NULL: the disk
	 * has none, or the reading has ended. */
	struct engine_fetch *fetch;
	bool has_asked_disk;
	int64_t fetch_until_us; /* then the choice stops waiting and computes */
	int n_fetched; /* tokens that came from the disk */
	uint64_t start_no; /* of its last start; unique, above 0 */
	/* What it waits for while it holds no pages (share.h). */
	struct {
		uint64_t start_no; /* of the choice that computes its first n tokens; 0: none */
		int n;
		uint64_t n_seen; /* choices that had started when it was compared */
	} share;
	struct ids output;
	int32_t max_output;
	int32_t n_scored;    /* tokens of the prompt whose log-probability was emitted */
	int32_t n_reasoning; /* tokens inside reasoning so far */
	int n_forced;        /* tokens of close_ids that were forced, over all closings */
	int64_t last_token_us;
	enum finish finish; /* FINISH_NONE until DONE */

	struct sampler *sampler;
	struct guard guard; /* kept over a preemption */
	struct outparse *parse;
	struct detok detok;
	struct buf text; /* of one token, between detok and parse */

	/* Draft tokens (draft.h). A step's slice is the newest token and n_draft draft
	 * tokens behind it. */
	struct lookup lookup;
	struct draft_trust trust;
	struct draft_account account;
	int32_t draft[1 + DRAFT_MAX];
	int n_draft, draft_mark;
	/* draft[1] is a draft token of lookup that is not verified: the next drawn token shows
	 * whether it was right. */
	bool has_idle_draft;
	bool awaits_model; /* a model has text to read before the draft that it was asked for */
	bool goes_on_reading; /* it has begun that text, and will read all of it */
};

/* Asserts that the diagram allows the change. */
void choice_set_state(struct sched_choice *c, enum choice_state next);
static inline bool choice_is_running(const struct sched_choice *c)
{
	return c->state == CHOICE_PREFILL || c->state == CHOICE_DECODE;
}
static inline bool choice_is_over(const struct sched_choice *c)
{
	return c->state >= CHOICE_DONE;
}

/* The request's choices, all QUEUED. What only a running choice needs is not allocated. */
struct sched_choice *choices_create(struct request *r, int32_t n_ctx);
void choices_destroy(struct request *r); /* their sequences must be destroyed before */

/* Makes the sampler, parser and grammar, when the choice first starts. */
void choice_begin(struct sched_choice *c, const struct tokenizer *t,
		  const struct grammar_vocab *vocab, int32_t n_vocab);

/* Frees what only a generating choice needs, its output included. */
void choice_release(struct sched_choice *c);

/* Does the client want log-probabilities of prompt tokens? Then the engine must compute
 * logits of the whole prompt, so no token may come out of the cache. */
bool choice_scores(const struct sched_choice *c);
/* Emits the log-probabilities of prompt tokens. logits: (n, n_vocab) f32, the rows of the
 * slice of n prompt tokens that the engine has just computed. E_BACKEND. */
enum status choice_score(struct sched_choice *c, const float *logits, int n,
			 int32_t n_vocab, struct emit *em) MUST_USE;

const struct ids *choice_prompt(const struct sched_choice *c);
/* Its prompt without output; borrows from the request. */
struct engine_prompt choice_engine_prompt(const struct sched_choice *c);
int choice_length(const struct sched_choice *c); /* tokens of its history */
/* Appends all tokens of the prompt and of the answer to out. */
void choice_history(const struct sched_choice *c, struct ids *out);
/* The next pending tokens as one slice, at most n_max. n_logits is 1 if they are the last
 * pending ones, n where choice_scores, else 0. Drops a draft. */
struct engine_slice choice_slice(struct sched_choice *c, int n_max);

/* Drafts at most `max` tokens behind the newest one, into draft. Returns how many. Tokens
 * that another match contradicts are taken only with is_all. */
int choice_draft(struct sched_choice *c, int max, bool is_all);
/* Puts the newest token into draft[0] and returns it. Other drafters write behind it. */
int32_t choice_begin_draft(struct sched_choice *c);
/* The slice that verifies the first n draft tokens. */
struct engine_slice choice_draft_slice(struct sched_choice *c, int n);
/* Draws the next token from its row of logits, then accepts the tokens that the grammar
 * forces behind it. Emits each with its text, and the end behind the last one, which sets
 * finish. The caller changes the state. The whole row is fetched only if its best logits do
 * not decide. E_BACKEND, E_INVAL as sampler_next; E_LIMIT from a grammar. */
enum status choice_draw(struct sched_choice *c, const struct choice_row *row,
			struct emit *em) MUST_USE;
/* choice_draw for the rows of choice_draft_slice, the first of which is `row`. Goes on as
 * long as the drawn tokens are the draft's. *out_n_right draft tokens were right. */
enum status choice_draw_drafted(struct sched_choice *c, struct choice_row row, struct emit *em,
				int *out_n_right) MUST_USE;
/* Ends a choice without a next token: emits held-back text; finish is FINISH_LENGTH. */
void choice_cut(struct sched_choice *c, struct emit *em);
