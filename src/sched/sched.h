/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler decides what runs next: it admits requests, plans steps, samples and emits
 * events. The engine thread lives in sched_run().
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
	/* Drafts as wide as they are worth their cost (draft.h): by lookup, and by a model
	 * (engine_draft.h) where lookup finds nothing. */
	SCHED_DRAFT_AUTO,
	SCHED_DRAFT_LOOKUP, /* drafts as wide as possible, by lookup … */
	SCHED_DRAFT_MODEL   /* … or by a model */
};

struct sched_opts {
	struct engine *engine;
	const struct tokenizer *tokenizer;
	const struct clock *clock;
	struct health *health;   /* gets a heartbeat in each round of the loop */
	int max_queue;           /* requests that may wait; 0: 64 */
	int64_t max_queue_tok;   /* prompt tokens of waiting requests together; 0: no bound */
	int64_t max_wait_us;     /* a request may wait so long, then E_TIMEOUT; 0: no bound */
	int prefill_chunk;       /* most prompt tokens in a step beside streams; 0: 256 */
	/* a step beside streams gets fewer prompt tokens so as to last at most this long
	 * (policy_chunk); 0: no bound */
	int64_t step_target_us;
	struct profile *profile; /* of the engine's backend; NULL: steps are not measured */
	enum sched_draft draft;  /* speculative decoding */
	/* of decode steps, measured at start; NULL: not measured */
	const struct draft_cost *costs;
	bool logs_misses;        /* log the text where a prompt differs from an earlier one */
	void (*on_ready)(void *ctx); /* engine thread: sched_next_ready has a request */
	void *ctx;
};

struct sched *sched_create(const struct sched_opts *o);
void sched_destroy(struct sched *s); /* after sched_run has returned */

/* Most requests of the background that may wait. They are in no count of the queue. */
#define SCHED_BACKGROUND_MAX 1024

/* Thread: any; does not wait. On OK takes over one reference. E_QUEUE_FULL, E_DRAINING,
 * E_CTX_LEN (fail->got, ->limit), E_LIMIT if the request can never fit into the KV
 * cache. */
enum status sched_submit(struct sched *s, struct request *r,
			 struct fail *fail) MUST_USE;
/* Thread: any. Ends the request's sequences before the next step, in any phase. A last
 * event still comes. */
void sched_cancel(struct sched *s, struct request *r);
/* Thread: io. A request whose events have not been drained, or NULL. A request is returned
 * again only after request_next_event has returned NULL for it. */
struct request *sched_next_ready(struct sched *s);

/* Thread: engine. Loops until sched_stop. */
void sched_run(struct sched *s);
/* One iteration: takes new requests, plans, runs a step, emits. False: there was nothing to do.
 * For tests and haloctl. */
bool sched_iterate(struct sched *s);

/* Thread: any. Refuses new requests (E_DRAINING); running and waiting ones go on. */
void sched_drain(struct sched *s);
/* Thread: any. Ends all requests now (EVENT_FAILED, E_DRAINING) and leaves sched_run. */
void sched_stop(struct sched *s);

struct sched_counts {
	int n_running, n_waiting;
	int64_t n_waiting_tok;
};
/* Thread: any; reads atomics. */
void sched_counts(const struct sched *s, struct sched_counts *out);
bool sched_is_idle(const struct sched *s);
