/* SPDX-License-Identifier: Apache-2.0
 *
 * One request from parsed body to last event.
 *
 * Phases, and which call moves it on:
 *   1. made and filled by api on an io or worker thread: request_create
 *   2. handed over: sched_submit. From here the engine thread owns everything but
 *      the fields below "shared".
 *   3. its events flow back: sched (engine) pushes, http (io) pops with
 *      request_next_event after sched_next_ready named the request
 *   4. over: the last event is EVENT_DONE or EVENT_FAILED
 *   5. freed when both sides have let go: request_unref, twice
 *
 * A request has one or more prompts and n choices for each: choice i answers
 * prompt i / n. Each choice is a sequence of its own:
 *
 *   QUEUED ──► PREFILL ──► DECODE ──► DONE
 *                ▲  │         │  │
 *                │  └────┬────┘  └──► FAILED
 *                │       ▼ (pages taken back)
 *                └── PREEMPTED
 *      any ──► CANCELLED (client gone, deadline)
 */
#pragma once
#include <stdatomic.h>

#include "base/arena.h"
#include "engine/engine_image.h"
#include "grammar/grammar.h"
#include "kv/miss.h"
#include "output/outparse.h"
#include "sampler/sampler.h"
#include "sched/draft.h"
#include "tokenizer/tokenizer.h"

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_ABORT, FINISH_ERROR,
	      FINISH_TOOL_CALLS /* said by api: a STOP behind tool calls */ };
const char *finish_name(enum finish f); /* "stop", as the API spells it */

enum event_kind {
	EVENT_STARTED,     /* left the queue, prefill begins */
	EVENT_PROGRESS,    /* n_prefilled of the prompt's tokens are done */
	EVENT_SCORES,      /* further tokens of the prompt, the second one first, of
	                    * the first choice that answers it */
	EVENT_DELTA,       /* text and tokens of one choice */
	EVENT_CHOICE_DONE, /* finish, after the choice's last delta */
	EVENT_DONE,        /* all choices are done; stats */
	EVENT_FAILED,      /* fail; nothing follows */
};

struct event_token {
	int32_t id;
	float logprob;
	int32_t rank; /* SCORES: 1 is the likeliest */
	int n_top;
	const struct token_logprob *top; /* in the event */
};

struct event_span {
	enum out_channel channel;
	struct str text;
};

/* Times are clock_monotonic microseconds, 0 where it did not happen. */
struct request_stats {
	int64_t arrival_us;   /* the request line was read */
	int64_t received_us;  /* the body was there */
	int64_t parsed_us;    /* the prompt was tokens */
	int64_t scheduled_us; /* left the queue */
	int64_t first_token_us, last_token_us;
	int32_t n_prompt;     /* tokens, all prompts */
	int32_t n_cached;     /* of those, found in the prefix cache */
	int32_t n_disk;       /* of those, read from the disk for this request */
	struct miss miss;     /* why no more was found, of the first prompt that misses */
	int32_t n_output;     /* tokens, all choices */
	int32_t n_reasoning;  /* of those, inside reasoning */
	int32_t n_preempted;  /* times it lost its pages */
	int32_t n_drafted;    /* guesses that steps verified … */
	int32_t n_accepted;   /* … and that were right */
};
/* TTFT and TPOT as vLLM defines them; TPOT is NAN for fewer than two tokens of
 * output. n > 1: tokens of all choices count as one stream per choice. */
double request_ttft_ms(const struct request_stats *s);
double request_tpot_ms(const struct request_stats *s, int n_choices);

struct event {
	enum event_kind kind;
	int choice;
	enum finish finish;        /* CHOICE_DONE */
	const char *stop_string;   /* CHOICE_DONE by a stop string, else NULL */
	int32_t n_prefilled;       /* PROGRESS */
	struct event_span *spans;  /* DELTA: n_spans may be 0 with tokens > 0 */
	int n_spans;
	struct event_token *tokens; /* DELTA: always; logprobs when asked for. SCORES */
	int n_tokens;
	struct request_stats stats; /* STARTED, DONE, FAILED */
	struct fail fail;           /* FAILED */
	struct event *next;         /* owned by the queue */
	struct arena arena;         /* holds all of the above; event_destroy */
};
void event_destroy(struct event *e);

struct request {
	/* Filled by api before sched_submit, constant afterwards. */
	struct arena arena; /* everything below points into it */
	const char *id;     /* X-Request-Id */
	struct ids *prompts;
	int n_prompts, n; /* choices = n_prompts * n */
	int32_t turn_at;        /* tokens of the prompt before the user's last words; 0: not
	                         * known */
	/* Of the only prompt. What they point into is held, and let go with the request. */
	const struct engine_image *images;
	int n_images;
	void **held; /* (n_images) */
	void (*let_go)(void *held);
	struct str cache_space; /* its space of the prefix cache; empty: everybody's */
	struct sampler_params sampling;
	int32_t max_tokens; /* output tokens a choice; 0: what the context leaves */
	bool no_output;     /* only the prompt is looked at */
	int prompt_logprobs; /* how likely each token of a prompt is, with so many of the
	                      * likeliest; -1: not asked */
	struct draft_limits draft; /* request_create: as many as there may be */
	int32_t min_tokens; /* no stop id before; a stop string ends it all the same */
	const int32_t *stop_ids; /* eos and stop_token_ids */
	int n_stop_ids;
	bool ignore_eos;     /* stop_ids do not end a choice */
	bool skip_special;   /* special tokens have no text */
	bool is_text;        /* an answer is a text of its own, not the rest of the prompt's */
	struct outparse_opts parse;
	/* After so many tokens inside reasoning these ids come next, whatever the model
	 * says: what closes it. n_close_ids 0: it may go on. */
	int32_t max_reasoning;
	const int32_t *close_ids;
	int n_close_ids;
	/* What may be written; references. guard.h says how they go together. */
	struct grammar *grammar; /* of the content; NULL: anything */
	struct str grammar_begun; /* what the prompt's end has already written of it */
	bool grammar_waits;      /* until the parser says that content has begun */
	struct grammar *call_grammar; /* of one tool call; NULL: anything */
	int32_t reasoning_id; /* token that may open reasoning ahead of it; 0: none */
	int64_t arrival_us, received_us, parsed_us; /* as request_stats has them */
	int64_t deadline_us; /* 0: none */
	int64_t max_decode_us; /* from the first token on: then the answer ends; 0: any */
	void *user;          /* http's connection; io thread only */

	/* shared */
	atomic_bool is_cancelled;
	_Atomic int refs;
	struct request_queue *events; /* made by request_create; opaque */
	struct request *next_ready;   /* the ready list's, under its lock */

	/* engine thread only */
	struct sched_choice *choices;
	int n_over;        /* choices that have ended */
	bool is_over;      /* its last event is out */
	bool is_scheduled; /* left the queue */
	struct request_stats stats;
	struct request *next;
};

struct request *request_create(const char *id); /* two references */
void request_ref(struct request *r);
void request_unref(struct request *r);
static inline int request_n_choices(const struct request *r)
{
	return r->n_prompts * r->n;
}
/* io: the next event, which the caller destroys; NULL when there is none now. */
struct event *request_next_event(struct request *r);
/* engine: append e, which the queue then owns. True when the io side must be
 * told: it has not been since it last found the queue empty. */
bool request_push_event(struct request *r, struct event *e);
