/* SPDX-License-Identifier: Apache-2.0
 *
 * One request from parsed body to last event.
 *
 * A request's phases, and the call that begins each:
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
	      FINISH_TOOL_CALLS /* set by api: a STOP behind tool calls */ };
const char *finish_name(enum finish f); /* "stop", as the API spells it */

enum event_kind {
	EVENT_STARTED,     /* left the queue, prefill begins */
	EVENT_PROGRESS,    /* n_prefilled tokens of a prompt are done */
	/* scores of further prompt tokens, from the second one on; only for a prompt's
	 * first choice */
	EVENT_SCORES,
	EVENT_DELTA,       /* text and tokens of one choice */
	EVENT_CHOICE_DONE, /* finish, after the choice's last delta */
	EVENT_DONE,        /* all choices are done; stats */
	EVENT_FAILED,      /* fail; no event follows */
};

struct event_token {
	int32_t id;
	float logprob;
	int32_t rank; /* SCORES: 1 is the likeliest token */
	int n_top;
	const struct token_logprob *top; /* its memory is the event's */
};

struct event_span {
	enum out_channel channel;
	struct str text;
};

/* Times are microseconds of clock_monotonic; 0: did not happen. */
struct request_stats {
	int64_t arrival_us;   /* the request line was read */
	int64_t received_us;  /* the whole body had come */
	int64_t parsed_us;    /* the prompt was tokenized */
	int64_t scheduled_us; /* the request left the queue */
	int64_t first_token_us, last_token_us;
	int32_t n_prompt;     /* tokens, all prompts */
	int32_t n_cached;     /* of those, found in the prefix cache */
	int32_t n_disk;       /* of those, read from the disk for this request */
	struct miss miss;     /* why no more was cached, for the first prompt with a miss */
	int32_t n_output;     /* tokens, all choices */
	int32_t n_reasoning;  /* of n_output, inside reasoning */
	int32_t n_preempted;  /* times a choice lost its pages */
	int32_t n_drafted;    /* draft tokens that steps verified … */
	int32_t n_accepted;   /* … and those of them that were right */
};
/* TTFT and TPOT as vLLM defines them, in ms. TPOT is NAN for fewer than two output tokens.
 * With several choices, each counts as a stream. */
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
	struct event *next;         /* the queue's link */
	struct arena arena;         /* holds all of the above; event_destroy */
};
void event_destroy(struct event *e);

struct request {
	/* Filled by api before sched_submit, constant afterwards. */
	struct arena arena; /* everything below points into it */
	const char *id;     /* X-Request-Id */
	struct ids *prompts;
	int n_prompts, n; /* choices = n_prompts * n */
	int32_t turn_at;        /* prompt tokens before the user's last text; 0: not known */
	/* Images of all prompts, in their order. `held` keeps the memory they point into until
	 * the request is freed. */
	const struct engine_image *images;
	int n_images;
	int *n_images_of; /* (n_prompts) of each prompt; NULL: there are none */
	void **held; /* (n_images) */
	void (*let_go)(void *held);
	/* the space of the prefix cache that it uses; empty: the common one */
	struct str cache_space;
	int lora; /* its adapter: 1 + index in engine_opts.loras; 0: none */
	float lora_scale;
	struct sampler_params sampling;
	int32_t max_tokens; /* output tokens of a choice; 0: up to the end of the context */
	bool no_output;     /* only compute the prompt */
	/* emit each prompt token's log-probability and this many likeliest; -1: not
	 * asked */
	int prompt_logprobs;
	struct draft_limits draft; /* request_create sets no limits */
	int32_t min_tokens; /* no stop id before so many; stop strings still end a choice */
	const int32_t *stop_ids; /* the model's eos ids and the client's stop_token_ids */
	int n_stop_ids;
	bool ignore_eos;     /* stop_ids do not end a choice */
	bool skip_special;   /* special tokens have no text */
	/* an answer begins a text of its own, and does not continue the prompt's */
	bool is_text;
	struct outparse_opts parse;
	/* After max_reasoning tokens of reasoning these ids are forced; they close it.
	 * n_close_ids 0: no limit. */
	int32_t max_reasoning;
	const int32_t *close_ids;
	int n_close_ids;
	/* Grammars for the answer; the request holds references. guard.h says how they
	 * combine. */
	struct grammar *grammar; /* of the content; NULL: anything */
	struct str grammar_begun; /* the part of it that ends the prompt already */
	bool grammar_waits;      /* applies only when the parser reports that content has begun */
	struct grammar *call_grammar; /* of one tool call; NULL: anything */
	int32_t reasoning_id; /* a token that may open reasoning before the grammar; 0: none */
	int64_t arrival_us, received_us, parsed_us; /* see request_stats */
	int64_t deadline_us; /* 0: none */
	int64_t max_decode_us; /* an answer ends so long after its first token; 0: no limit */
	/* The lower number goes first, and the higher one gives way (policy.c). Among equals, who
	 * came first. REQUEST_BACKGROUND: computes only in steps that have no other request. */
	int32_t priority;
	void *user;          /* http's connection, for the io thread alone; or what tell gets */
	/* Engine thread: the request has events. NULL: sched_next_ready names it instead. */
	void (*tell)(void *user);

	/* shared */
	atomic_bool is_cancelled;
	_Atomic int refs;
	struct request_queue *events; /* made by request_create */
	struct request *next_ready;   /* link of the ready list, under its lock */

	/* engine thread only */
	struct sched_choice *choices;
	int n_over;        /* choices that have ended */
	bool is_over;      /* its last event has been emitted */
	bool is_scheduled; /* has left the queue */
	struct request_stats stats;
	struct request *next;
};

#define REQUEST_BACKGROUND INT32_MAX
static inline bool request_is_background(const struct request *r)
{
	return r->priority == REQUEST_BACKGROUND;
}

struct request *request_create(const char *id); /* the caller gets two references */
void request_ref(struct request *r);
void request_unref(struct request *r);
static inline int request_n_choices(const struct request *r)
{
	return r->n_prompts * r->n;
}
/* io: the next event; the caller destroys it. NULL: none now. */
struct event *request_next_event(struct request *r);
/* engine: appends e, which the queue then owns. True: the io side must be told, since it
 * has found the queue empty. */
bool request_push_event(struct request *r, struct event *e);
