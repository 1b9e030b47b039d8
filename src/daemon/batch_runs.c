/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/batch_runs.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#define SWEEP_S 3600 /* between two looks for what is too old, at most */

/* Which of the models a batch is for. */
struct batch_model {
	struct batch_runs *of;
	int i;
	struct batch_run *run; /* NULL: the model is not in memory. See batch_runs.lock */
	atomic_bool is_taken;  /* its batches are run's alone */
};

struct batch_runs {
	struct batch_runs_opts o;
	pthread_mutex_t lock; /* of the pointers to runs: the engines' threads end these */
	struct batch_model *models; /* (o.models->n) */
	/* It validates batches, and ends those that are over, while their model is not in memory.
	 * NULL: there is one model, which they load. Thread: io. */
	struct batch_run *closer;
	atomic_bool has_news; /* a batch was made or cancelled */
	uv_timer_t *timer;    /* the loop frees it */
	int64_t sweep_s;      /* seconds from one look to the next; the worker's meanwhile */
};

/* Any thread, perhaps with the store's lock held. */
static void on_work(void *ctx)
{
	struct batch_runs *b = ctx;
	atomic_store(&b->has_news, true);
	b->o.on_work(b->o.ctx);
}

/* On a worker: it may wait for the disk. */
static void free_gone(void *arg)
{
	const struct batch_runs *b = arg;
	batch_store_free_gone(b->o.store);
}

static void on_freed(void *arg) { (void)arg; }

/* batch_rules.is_one */
static bool is_one(void *ctx, struct str a, struct str b)
{
	const struct batch_runs *of = ctx;
	return fleet_find(of->o.fleet, a) == fleet_find(of->o.fleet, b);
}

/* batch_whose.is_own */
static bool is_own(void *ctx, const char *model)
{
	const struct batch_model *m = ctx;
	return fleet_find(m->of->o.fleet, str_of(model)) == m->i;
}

/* batch_whose.is_own of the closer */
static bool is_nobodys(void *ctx, const char *model)
{
	const struct batch_runs *b = ctx;
	return !atomic_load(&b->models[fleet_find(b->o.fleet, str_of(model))].is_taken);
}

static void start_closer(struct batch_runs *b)
{
	const struct batch_run_opts o = {
		.store = b->o.store, .whose = {is_nobodys, b},
		.is_one = is_one, .ctx = b,
		.max_lines = (int)b->o.config->batch_requests,
		.max_line_bytes = (size_t)b->o.config->max_body};
	struct fail fail;
	if (b->o.models->n > 1 && batch_run_start(&o, &b->closer, &fail) != OK)
		log_error("%s (limits: TasksMax, ulimit -u, memory): batches end with their model "
			  "in memory only", fail.text);
}

static void stop_closer(struct batch_runs *b)
{
	batch_run_stop(b->closer);
	b->closer = NULL;
}

void batch_runs_set(struct batch_runs *b, int i, const struct api *api, struct sched *sched)
{
	const struct batch_run_opts o = {
		.api = api, .sched = sched, .store = b->o.store,
		.whose = {is_own, &b->models[i]}, .is_one = is_one, .ctx = b,
		.n_at_once = (int)b->o.models->all[i]->max_seqs,
		.max_lines = (int)b->o.config->batch_requests,
		.max_line_bytes = (size_t)b->o.config->max_body};
	struct fail fail;
	struct batch_run *fresh = NULL;
	if (api) { /* the closer may be at one of its batches */
		atomic_store(&b->models[i].is_taken, true);
		stop_closer(b);
		start_closer(b);
	}
	if (api && batch_run_start(&o, &fresh, &fail) != OK)
		log_error("%s (limits: TasksMax, ulimit -u, memory): batches wait for the next "
			  "start", fail.text);
	pthread_mutex_lock(&b->lock);
	struct batch_run *old = b->models[i].run;
	b->models[i].run = fresh;
	pthread_mutex_unlock(&b->lock);
	batch_run_stop(old);
	if (api)
		return;
	atomic_store(&b->models[i].is_taken, false);
	on_work(b);
}

bool batch_runs_has_work(struct batch_runs *b, int i)
{
	const struct batch_whose whose = {is_own, &b->models[i]};
	return batch_records_are_open(b->o.store, &whose);
}

void batch_runs_wake(struct batch_runs *b)
{
	if (!atomic_exchange(&b->has_news, false))
		return;
	workers_run(b->o.workers, free_gone, on_freed, b);
	pthread_mutex_lock(&b->lock);
	for (int i = 0; i < b->o.models->n; i++)
		if (b->models[i].run)
			batch_run_wake(b->models[i].run);
	pthread_mutex_unlock(&b->lock);
	if (b->closer)
		batch_run_wake(b->closer);
}

/* --- what is too old -------------------------------------------------------------- */

/* On a worker: it may wait for the disk. */
static void sweep(void *arg)
{
	struct batch_runs *b = arg;
	int64_t now_s = clock_wall_s();
	b->sweep_s = MAX(MIN(batch_store_sweep(b->o.store, now_s) - now_s, SWEEP_S), 1);
}

static void on_timer(uv_timer_t *t);

static void on_swept(void *arg)
{
	struct batch_runs *b = arg;
	int rc = uv_timer_start(b->timer, on_timer, (uint64_t)b->sweep_s * 1000, 0);
	assert(rc == 0); /* its only errors are mistakes of its caller */
}

static void on_timer(uv_timer_t *t)
{
	struct batch_runs *b = t->data;
	workers_run(b->o.workers, sweep, on_swept, b);
}

/* --- life ------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *h) { free(h); }

struct batch_runs *batch_runs_create(const struct batch_runs_opts *o)
{
	struct batch_runs *b = xcalloc(1, sizeof *b);
	b->o = *o;
	b->models = xcalloc((size_t)o->models->n, sizeof *b->models);
	for (int i = 0; i < o->models->n; i++)
		b->models[i] = (struct batch_model){.of = b, .i = i};
	pthread_mutex_init(&b->lock, NULL);
	b->timer = xcalloc(1, sizeof *b->timer);
	int rc = uv_timer_init(o->loop, b->timer);
	assert(rc == 0); /* it has no error */
	b->timer->data = b;
	start_closer(b);
	batch_store_on_work(o->store, on_work, b);
	workers_run(o->workers, sweep, on_swept, b);
	return b;
}

void batch_runs_destroy(struct batch_runs *b)
{
	if (!b)
		return;
	batch_store_on_work(b->o.store, NULL, NULL);
	for (int i = 0; i < b->o.models->n; i++)
		batch_run_stop(b->models[i].run);
	stop_closer(b);
	uv_close((uv_handle_t *)b->timer, on_closed);
	pthread_mutex_destroy(&b->lock);
	free(b->models);
	free(b);
}
