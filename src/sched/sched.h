/* SPDX-License-Identifier: Apache-2.0
 *
 * Who runs next: admits requests, plans steps, samples, emits. The engine thread
 * lives in sched_run().
 */
#pragma once
#include "base/clock.h"
#include "base/health.h"
#include "engine/engine.h"
#include "sched/draft.h"
#include "sched/request.h"

struct sched;

enum sched_draft {
	SCHED_DRAFT_OFF,
	/* As many guesses as are worth what they cost (draft.h): by lookup, and by the model's
	 * own layer where lookup finds nothing. */
	SCHED_DRAFT_AUTO,
	SCHED_DRAFT_LOOKUP, /* as many as there may be, by lookup … */
	SCHED_DRAFT_MTP     /* … or by the model's own layer */
};

struct sched_opts {
	struct engine *engine;
	const struct tokenizer *tokenizer;
	const struct clock *clock;
	struct health *health;   /* beaten once a loop */
	int max_queue;           /* requests waiting; 0: 64 */
	int64_t max_queue_tok;   /* their prompt tokens; 0: no bound */
	int64_t max_wait_us;     /* in the queue, then E_TIMEOUT; 0: no bound */
	int prefill_chunk;       /* prompt tokens a step beside running streams; 0: 256 */
	int64_t step_target_us;  /* a step beside running streams carries fewer prompt
				  * tokens when it would last longer (policy_chunk);
				  * 0: no bound */
	struct profile *profile; /* of the engine's backend; NULL: nothing is measured */
	enum sched_draft draft;  /* tokens guessed ahead of the model */
	const struct draft_cost *costs; /* of decode steps, as measured; NULL: not known */
	bool logs_misses;        /* texts of prompts that differ from earlier ones */
	void (*on_ready)(void *ctx); /* engine thread: sched_next_ready has something */
	void *ctx;
};

struct sched *sched_create(const struct sched_opts *o);
void sched_destroy(struct sched *s); /* after sched_run has returned */

/* Thread: any. Takes over one reference on OK. E_QUEUE_FULL, E_DRAINING,
 * E_CTX_LEN (fail->got, ->limit), E_LIMIT when it can never fit the KV cache. Does
 * not wait. */
enum status sched_submit(struct sched *s, struct request *r,
			 struct fail *fail) MUST_USE;
/* Thread: any. The client is gone; its sequences end before the next step, in any
 * phase. A last event still comes. */
void sched_cancel(struct sched *s, struct request *r);
/* Thread: io. A request with events that have not been drained, or NULL. Each
 * is named once until request_next_event has returned NULL for it. */
struct request *sched_next_ready(struct sched *s);

/* Thread: engine. Loops until sched_stop. */
void sched_run(struct sched *s);
/* One turn: take new requests, plan, step, emit. False when there was nothing to
 * do. For tests and for haloctl. */
bool sched_turn(struct sched *s);

/* Thread: any. No new requests (E_DRAINING); running and waiting ones go on. */
void sched_drain(struct sched *s);
/* Thread: any. End everything now (EVENT_FAILED, E_DRAINING) and leave sched_run. */
void sched_stop(struct sched *s);

struct sched_counts {
	int n_running, n_waiting;
	int64_t n_waiting_tok;
};
/* Thread: any; from atomics. */
void sched_counts(const struct sched *s, struct sched_counts *out);
bool sched_is_idle(const struct sched *s);
