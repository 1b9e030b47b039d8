/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's own state, shared by sched.c (the doors and the loop) and
 * batch.c (one step). Nobody else includes this.
 */
#pragma once
#include "base/queue.h"
#include "engine/engine_fetch.h"
#include "engine/engine_guess.h"
#include "sched/choice.h"
#include "sched/policy.h"
#include "sched/sched.h"

struct req_list {
	struct request *head, **tail; /* linked by request.next */
};

struct sched {
	struct sched_opts o;
	struct queue *inbox; /* submitted, not yet seen by the engine thread */
	struct emit emit;
	struct grammar_vocab *vocab; /* of o.tokenizer */

	/* any thread */
	_Atomic int n_queued;         /* submitted and not yet scheduled */
	_Atomic int64_t n_queued_tok; /* their prompt tokens */
	_Atomic int n_open;           /* submitted, last event not yet out */
	_Atomic int n_running, n_paused; /* scheduled; as of the last turn */
	atomic_bool is_draining, is_stopping;

	/* engine thread */
	struct req_list waiting; /* QUEUED, by arrival */
	struct req_list active;  /* scheduled, by arrival */
	int n_bad_steps;         /* in a row */
	bool is_bad_step;        /* the one being evaluated */

	/* The step in the making: sequences with pages, oldest first. */
	int n_slots;
	int n_run;
	int n_fetching; /* choices that wait for the disk */
	struct sched_choice **run;   /* [n_slots] */
	struct policy_seq *seqs;     /* [n_slots] */
	int *n_tok;                  /* [n_slots] */
	struct engine_slice *slices; /* [n_slots] */
	struct sched_choice **sliced; /* [n_slots] whose slice it is */

	struct policy_cost prefill_cost; /* of the last steps with prefill */
	struct draft_cost decode_cost;   /* of those without */
	struct draft_trust trust;        /* of all sequences' guesses */
	/* Of this step: */
	int64_t step_us;    /* the engine */
	double copy_credit_us; /* for copies to the disk beside streams */
	int64_t guess_us;   /* guesses of the model's own layer */
	int64_t confirm_us; /* states taken through guesses */
	int n_streams, n_guesses;

	/* The first in line did not fit: there is no use in asking again (a prefix
	 * lookup over its whole prompt) until there is more capacity. */
	const struct sched_choice *blocked;
	int blocked_pages_free, blocked_n_run;
};

/* --- batch.c --- */
void batch_init(struct sched *s);
void batch_deinit(struct sched *s);
/* Start what fits; then one step over all that runs. False when nothing runs. */
bool batch_turn(struct sched *s, int64_t now_us);
/* Pages that streams have left go to the disk, beside those that go on: as many as steps have paid
 * for. Nobody's token should wait for it. */
void batch_copy(struct sched *s);

/* Whatever c still holds, goes. */
void batch_drop(struct sched *s, struct sched_choice *c);

/* --- sched.c --- */
/* A queued request leaves the queue for the active list. */
void sched_schedule(struct sched *s, struct request *r, int64_t now_us);
/* The last event of r: done, or failed with code and text. */
void sched_end_done(struct sched *s, struct request *r);
void sched_end_failed(struct sched *s, struct request *r, const struct fail *f);
