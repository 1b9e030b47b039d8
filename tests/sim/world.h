/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler, the real engine, a fake model and clients that write down what
 * they are told. Everything runs on the caller's thread and on virtual time.
 */
#pragma once
#include "sched/sched.h"
#include "tests/sim/fake.h"

#define CLIENTS_MAX 64
#define STOPS_MAX 4

struct world_opts {
	int page, pages, ctx, seqs, batch, prefix; /* engine */
	int states;                                /* slots; 0: not recurrent */
	int queue, queue_tok, chunk;               /* sched */
	int draft;                                 /* enum sched_draft */
	/* 1: a layer drafts, and fails; 2: the same model beside, 8 times as fast; 3: that model
	 * fails; 4: a head fails */
	int drafter;
	int disk;                                  /* KiB of kv_dir; 0: there is none */
	int pad;                                   /* KiB that a page is longer there */
	int64_t max_wait_us, target_us;
	int64_t step_us, token_us;                 /* cost of a step */
	int64_t read_us;                           /* of one with a prompt, besides */
	int64_t copy_us;                           /* a page copied for the disk */
};

struct spec {
	char name[32];
	int prompt, prompts, n; /* tokens of a prompt, prompts, choices of each */
	char share[32];         /* prompts of this name begin alike */
	int share_tok;
	char agent[32];         /* and go on alike for the same agent; "": for nobody else */
	char salt[32];          /* its space of the prefix cache; "": everybody's */
	int max, min;
	double temp;
	int64_t seed;
	char *say; /* what the model answers, then eos; NULL: letters without end */
	char *stops[STOPS_MAX];
	int n_stops;
	bool keep_stop, think, ignore_eos;
	int scores; /* the likelihood of the prompt's tokens is wanted */
	int budget; /* of tokens to think in; 0: none */
	int priority, background; /* background: 1 in place of a priority */
	int64_t deadline_us; /* after submission; 0: none */
	bool may_be_cut;     /* the KV cache may end it early */
	int bad_token;       /* the first token of the prompt; 0: a good one */
};

struct client_choice {
	struct ids tokens;
	struct buf text[2]; /* by channel */
	bool is_done;
	enum finish finish;
	char stop[64];
	int64_t last_us, max_gap_us;
};

struct client {
	struct spec spec;
	struct world *w;
	struct request *r; /* NULL when refused */
	struct fail refused, failed; /* code OK: was not */
	int i_script;
	int i_started; /* 1.. in the order of EVENT_STARTED; 0: not */
	int n_prefilled, n_last, n_scored;
	struct client_choice *choices;
	struct request_stats stats;
	const char *fault; /* an event that must not come, or NULL */
};

struct world {
	struct world_opts o;
	struct fake fake, drafter;
	struct clock clock;
	struct engine *engine;
	struct tokenizer *tokenizer;
	struct sched *sched;
	struct health health;
	struct client *clients[CLIENTS_MAX];
	int n_clients, n_scripts, n_started;
	char dir[40]; /* of kv_dir; "": not made */
};

void world_init(struct world *w, const struct world_opts *o);
void world_deinit(struct world *w);
/* Another scheduler and engine, as after a restart. Nothing may be under way. */
void world_restart(struct world *w);
/* The spec's strings become the client's. */
struct client *world_submit(struct world *w, const struct spec *spec);
struct client *world_find(struct world *w, const char *name); /* or NULL */
int client_n_choices(const struct client *c);
int client_n_tokens(const struct client *c); /* all choices */
/* One iteration and all its events. False when there was nothing to do. */
bool world_iterate(struct world *w);
/* Turns until there is nothing to do, for kv_dir too; false when that takes too long. */
bool world_settle(struct world *w);
/* NULL, or what is wrong: the rules that hold at the end of every scenario. */
const char *world_fault(struct world *w);
