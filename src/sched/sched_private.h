/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's own state, shared by sched.c (submission and the loop), batch.c (one step) and
 * drafters.c (its draft tokens). No other file includes this header.
 */
#pragma once
#include "base/queue.h"
#include "engine/engine_fetch.h"
#include "engine/engine_draft.h"
#include "sched/choice.h"
#include "sched/policy.h"
#include "sched/sched.h"

struct req_list {
	struct request *head, **tail; /* linked by request.next */
};

/* What a scheduler has told of itself to metrics. */
struct sched_gauges {
	double running, background, waiting, waiting_tok, pages, pages_used, slots, checkpoints;
};

struct sched {
	struct sched_opts o;
	struct queue *inbox; /* submitted, not yet seen by the engine thread */
	struct emit emit;
	struct grammar_vocab *vocab; /* of o.tokenizer */

	/* read and written by any thread */
	_Atomic int n_queued;         /* requests submitted and not yet scheduled */
	_Atomic int64_t n_queued_tok; /* their prompt tokens */
	_Atomic int n_background;     /* background requests, submitted and not yet scheduled */
	_Atomic int n_open;           /* requests submitted whose last event is not yet out */
	/* requests with pages, and without, but for the background; as of the last iteration */
	_Atomic int n_running, n_paused;
	atomic_bool is_draining, is_stopping;

	/* only the engine thread's */
	struct req_list waiting; /* QUEUED, by priority and arrival */
	struct req_list active;  /* scheduled, by priority and start */
	struct sched_gauges told;
	int n_bad_steps;         /* bad steps in a row */
	int n_bad_drafts;        /* steps in a row in which the model that drafts failed */
	bool drafts_ran, drafts_failed; /* that model, in the last step */
	bool is_bad_step;        /* the current step has logits that are no numbers */

	/* The step being planned: choices that hold pages, in the order of `active`. */
	int n_slots;
	int n_run;
	int n_plan;     /* of run[], those that this step may compute: the rest give way */
	int n_fetching; /* choices that wait for the disk */
	uint64_t n_starts; /* choices started so far, also after a preemption */
	struct sched_choice **run;   /* [n_slots] */
	struct policy_seq *seqs;     /* [n_slots] */
	int *n_tok;                  /* [n_slots] */
	struct engine_slice *slices; /* [n_slots] */
	struct sched_choice **sliced; /* [n_slots] the choice of each slice */
	struct engine_seq **last;     /* [n_slots] those that a newcomer may replace */
	struct engine_available *available; /* [n_slots + 1] what it finds without the first i */

	struct policy_cost prefill_cost; /* of steps with prompt tokens */
	struct draft_cost decode_cost;   /* of steps without prompt tokens */
	struct policy_cost read_cost;    /* of what a model reads before it drafts */
	struct draft_trust trust;        /* of all sequences' drafts */
	/* Of the current step, times in us: */
	int64_t step_us;    /* engine_step */
	double copy_credit_us; /* time left for copies to the disk, over all steps */
	int64_t draft_us;   /* draft tokens of a model */
	int n_read;         /* tokens that the model beside has read before it */
	int64_t confirm_us; /* engine_seq_confirm, of draft tokens that were right */
	int n_streams, n_draft;

	/* The first choice in line, if it did not fit, and what it would have found without those
	 * behind it. Asking again costs a prefix lookup over its whole prompt, so it waits until
	 * there is more room. */
	const struct sched_choice *blocked;
	struct engine_available blocked_available;
	int blocked_n_run;
};

/* --- batch.c --- */
void batch_init(struct sched *s);
void batch_deinit(struct sched *s);
/* Starts the choices that fit, then runs one step. False: nothing runs. */
bool batch_iterate(struct sched *s, int64_t now_us);
/* Copies pages that ended streams left to the disk, while other streams go on: within the
 * time that steps have earned. So no token waits long. */
void batch_copy(struct sched *s);

/* Gives back the pages and the disk read that c still holds. */
void batch_drop(struct sched *s, struct sched_choice *c);

/* --- drafters.c --- */
/* Adds draft tokens to the n slices of a step without prompt tokens. A slice with a draft
 * has the rows of choice_draft_slice. */
void drafters_add(struct sched *s, int n);
/* Notes what a head that drafts came to in the step. */
void drafters_note_step(struct sched *s);

/* --- sched.c --- */
/* Moves a request from the queue to the active list. */
void sched_schedule(struct sched *s, struct request *r, int64_t now_us);
/* Makes what runs and waits known to other threads and to the metrics. */
void sched_publish(struct sched *s);
/* Emits the last event of r: done, or failed with code and text. */
void sched_end_done(struct sched *s, struct request *r);
void sched_end_failed(struct sched *s, struct request *r, const struct fail *f);
