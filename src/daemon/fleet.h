/* SPDX-License-Identifier: Apache-2.0
 *
 * The models of the process: which are in memory, which come next, which go. Each that is in memory
 * has a thread, its engine's. One model is loaded or unloaded at a time. Thread: io.
 *
 * A model is loaded at the start, or when a request asks for it. Where others hold its memory, the
 * one that was used least lately goes, when its running requests have ended; requests that come
 * for it meanwhile wait for their turn. A load that fails leaves the others as they are. A model
 * without requests goes to sleep after sleep_after.
 * Both ways it is unloaded in the same manner, and what is left answers questions about it.
 */
#pragma once
#include "daemon/boot.h"
#include "daemon/model_list.h"
#include "http/row.h"

struct fleet;

struct fleet_opts {
	const struct model_list *models; /* at least one */
	struct health *health;     /* of the process: gets the progress of loads */
	const struct clock *clock; /* used by many threads */
	void (*on_news)(void *ctx); /* any thread: call fleet_collect */
	void (*on_change)(void *ctx); /* other files are mapped than before */
	/* Model i is in memory. NULL, NULL, on its engine's thread: it is about to leave, and
	 * sched_run has returned. */
	void (*on_model)(void *ctx, int i, const struct api *api, struct sched *sched);
	/* Is there work for model i beside requests? Then it is loaded when the others, without the
	 * listener, have had no request for a minute, and does not go to sleep. */
	bool (*has_work)(void *ctx, int i);
	struct batch_store *const *batches; /* as in boot_opts; read when a model is loaded */
	void *ctx;
};

/* Plans: nothing is opened. Errors are those of boot_plan, and E_CONFIG: a name stands for two
 * models. */
enum status fleet_create(const struct fleet_opts *o, struct fleet **out,
			  struct fail *fail) MUST_USE;
void fleet_destroy(struct fleet *m); /* when fleet_has_ended, and after http_destroy */
/* Opens all models as a start does, with the same faults. */
enum status fleet_check(struct fleet *m, struct fail *fail) MUST_USE;

struct model_row *fleet_rows(struct fleet *m, int *n); /* for http_opts */
const struct api_memory *fleet_memory(const struct fleet *m); /* with all responses */
const struct boot_plan *fleet_plan(const struct fleet *m); /* of the first model */
/* The model that has this name or alias; without one of that name the first. Thread: any. */
int fleet_find(const struct fleet *m, struct str name);

/* Begins to load the listener, where there is one, and then the first model. With several, the
 * start goes on without the first where it cannot be loaded. E_LIMIT: no thread can be started. */
enum status fleet_start(struct fleet *m, struct fail *fail) MUST_USE;
enum fleet_state { FLEET_STARTING, FLEET_STARTED, FLEET_NOT_STARTED };
/* NOT_STARTED: *out_fail says why, and is_check whether it was the self-check. */
enum fleet_state fleet_started(const struct fleet *m, const struct fail **out_fail,
				 bool *is_check);

void fleet_need(void *m, struct model_row *r); /* http_opts.on_need */
void fleet_idle(void *m, struct model_row *r); /* http_opts.on_idle */
void fleet_collect(struct fleet *m);    /* after on_news */
void fleet_tick(struct fleet *m);       /* once a second: lets models go to sleep */
/* For how long a model has been leaving memory; 0: none is. */
int64_t fleet_leaving_us(const struct fleet *m);
/* No engine and no load: nothing can hang. */
bool fleet_is_idle(const struct fleet *m);
/* Nothing is in memory, and nothing is asked for: no tick is needed. */
bool fleet_are_at_rest(const struct fleet *m);
bool fleet_gave_up(const struct fleet *m); /* an engine has ended by itself */

void fleet_drain(struct fleet *m); /* new requests are refused */
void fleet_stop(struct fleet *m);  /* all that runs is ended */
/* No thread of a model runs. False, and *loads: one loads, which cannot be cut short, and no other
 * runs. */
bool fleet_have_ended(const struct fleet *m, bool *loads);
/* While one loads, and nobody uses the others any more: their last pages go to kv_dir. The process
 * ends then. */
void fleet_save(struct fleet *m);
