/* SPDX-License-Identifier: Apache-2.0
 *
 * One of the models that the server knows, as HTTP sees it: its name, whether it is in memory,
 * and the requests that wait until it is. Thread: io.
 *
 *               ┌──────────── on_need ────────────┐
 *               ▼                                 │
 *   UNLOADED ► LOADING ──► LOADED ──► SLEEPING ───┤ also UNLOADED, to make room
 *                 └──────► FAILED ────────────────┘ a later request tries again
 */
#pragma once
#include <sys/queue.h>

#include "api/api.h"
#include "base/health.h"
#include "sched/sched.h"

struct conn;
struct http;
struct peek;

enum row_state { ROW_UNLOADED, ROW_LOADING, ROW_LOADED, ROW_SLEEPING, ROW_FAILED };

struct model_row {
	/* the owner's: http reads them */
	const char *name;
	const char *const *aliases;
	int n_aliases;
	bool is_listener;     /* /v1/audio asks it where a form names no model */
	enum row_state state;
	bool is_leaving;      /* LOADED, but to be unloaded: new requests wait */
	/* While it is not LOADED it answers questions about the model only. NULL: it was not
	 * loaded yet, or nothing of it is kept. */
	const struct api *api;
	struct sched *sched;  /* LOADED: where requests go; else NULL */
	struct health *health; /* gets the heartbeat of its engine */
	struct fail why;      /* of its last load, which failed; code OK: it did not */
	double load_s;        /* seconds that its last load took; 0: it was not loaded yet */
	int64_t sleep_us;     /* without requests for so long it leaves memory; 0: it stays */
	int64_t ready_us;     /* while somebody waits: when it is likely to be LOADED */
	/* http's: the owner reads the first two */
	int n_calls;          /* requests that use api or sched: it must stay */
	int64_t used_us;      /* when the last of them ended */
	double audio_s, audio_time_s; /* as struct metrics_model has them */
	double n_requests, n_prompt, n_output;
	int n_waiting;
	TAILQ_HEAD(, conn) waiting; /* in order of their arrival */
};

/* Before http_create. The owner sets its own fields. */
void row_init(struct model_row *r);
const char *row_state_name(enum row_state s); /* as llama-server's router spells it */
bool row_has_name(const struct model_row *r, struct str name); /* or alias */
/* The row of this name or alias; NULL: none. "NAME:latest" is NAME. */
struct model_row *row_named(struct http *h, struct str name);
/* The row that answers for the server: the first that is loaded, else the first with an api, else
 * the first. A listener does not. NULL: there is none. */
struct model_row *row_front(struct http *h);
/* The row that the query's `model` names, else row_front. NULL: there is none of this name, or
 * nothing of it is there that could answer; fail is set. */
struct model_row *row_asked(struct conn *c, struct fail *fail);
/* Can requests use it now? */
static inline bool row_is_open(const struct model_row *r)
{
	return r->state == ROW_LOADED && !r->is_leaving;
}
/* As /v1/models and its kind list them, n of them; the embedders, too, where none of the
 * others is in memory that shows them. The caller frees it. */
struct api_row *row_list(struct http *h, int *out_n);

/* What the request's body asks for; c keeps it. A large body is dear to read: it is read once. */
const struct peek *row_peek(struct conn *c);
/* Chooses the row that a request asks for by its body. NULL: there is none; fail is set. */
struct model_row *row_choose(struct conn *c, struct fail *fail);
/* The owner calls it when a row has become open or FAILED: requests that wait for it go on. */
void row_changed(struct model_row *r);
/* Refuses all requests that wait for it. */
void row_refuse(struct model_row *r, const struct fail *f);
/* Lets the request wait for its row, or refuses it. */
void row_wait(struct conn *c);
/* Refuses a request that has waited for too long. */
void row_tick(struct conn *c, int64_t now_us);
/* A request begins to use its row, and ends. */
void row_hold(struct conn *c);
void row_release(struct conn *c);
