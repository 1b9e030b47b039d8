/* SPDX-License-Identifier: Apache-2.0
 *
 * The batches of the process: a thread for each model in memory (batch_run.h), and what removes
 * files and batches that are too old, whether a model runs or not. Thread: io.
 */
#pragma once
#include <uv.h>

#include "base/workers.h"
#include "daemon/batch_run.h"
#include "daemon/fleet.h"

struct batch_runs;

struct batch_runs_opts {
	const struct config *config;
	const struct model_list *models;
	const struct fleet *fleet; /* says which model a batch is for */
	struct batch_store *store;
	uv_loop_t *loop;
	struct workers *workers;
	void (*on_work)(void *ctx); /* any thread: call batch_runs_wake */
	void *ctx;
};

/* All of *o outlives it. */
struct batch_runs *batch_runs_create(const struct batch_runs_opts *o);
/* fleet_opts.on_model. Thread: io, or the engine's of the model that leaves. */
void batch_runs_set(struct batch_runs *b, int i, const struct api *api, struct sched *sched);
/* fleet_opts.has_work */
bool batch_runs_has_work(struct batch_runs *b, int i);
void batch_runs_wake(struct batch_runs *b);
/* Ends all threads, when no engine runs and no job of the workers. The loop must run once more, to
 * free its handles. */
void batch_runs_destroy(struct batch_runs *b); /* NULL is fine */
