/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"

struct worker_job {
	STAILQ_ENTRY(worker_job) link;
	void (*fn)(void *arg);
	void (*done)(void *arg);
	void *arg;
	bool is_few;
};

STAILQ_HEAD(worker_job_list, worker_job);

enum worker_slot_state { SLOT_FREE, SLOT_RUNS, SLOT_ENDED };

struct worker_slot {
	struct workers *of;
	pthread_t thread;
	enum worker_slot_state state;
};

struct workers {
	struct workers_opts opts;
	int n_pending;   /* the owner's */
	int n_few;       /* the owner's: jobs of workers_run_few that have a place */
	struct worker_job_list few; /* the owner's: those that have none */
	bool is_refused; /* the owner's: the log says already that threads are missing */

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t has_job;
	struct worker_job_list jobs, ended;
	int n_idle, n_threads, n_jobs;
	bool is_over;
	bool has_worked; /* since memory was last given back */
	struct worker_slot slots[]; /* [opts.max] */
};

/* --- a worker -------------------------------------------------------------------- */

/* Waits for a job, with the lock held. NULL: the thread ends. */
static struct worker_job *wait_job(struct workers *w)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += w->opts.idle_ms / 1000;
	until.tv_nsec += w->opts.idle_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	bool is_late = false;
	w->n_idle++;
	while (STAILQ_EMPTY(&w->jobs) && !w->is_over && !(is_late && w->n_threads > 1)) {
		if (is_late) {
			pthread_cond_wait(&w->has_job, &w->lock);
			continue;
		}
		is_late = pthread_cond_timedwait(&w->has_job, &w->lock, &until) == ETIMEDOUT;
		if (!is_late || !w->has_worked)
			continue;
		w->has_worked = false;
		/* The system gets back what jobs have freed: with unified memory the GPU
		 * needs it. */
		pthread_mutex_unlock(&w->lock);
		malloc_trim(0);
		pthread_mutex_lock(&w->lock);
	}
	w->n_idle--;
	struct worker_job *j = w->is_over ? NULL : STAILQ_FIRST(&w->jobs);
	if (j) {
		STAILQ_REMOVE_HEAD(&w->jobs, link);
		w->n_jobs--;
		w->has_worked = true;
	}
	return j;
}

static void *worker_main(void *arg)
{
	struct worker_slot *s = arg;
	struct workers *w = s->of;
	struct worker_job *j;
	pthread_mutex_lock(&w->lock);
	while ((j = wait_job(w))) {
		pthread_mutex_unlock(&w->lock);
		j->fn(j->arg);
		pthread_mutex_lock(&w->lock);
		STAILQ_INSERT_TAIL(&w->ended, j, link);
		w->opts.on_done(w->opts.ctx);
	}
	w->n_threads--;
	s->state = SLOT_ENDED;
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* --- the owner -------------------------------------------------------------------- */

/* Starts a thread, with the lock held. Returns 0 or an errno. */
static int workers_start(struct workers *w)
{
	struct worker_slot *s = w->slots;
	while (s->state == SLOT_RUNS)
		s++;
	if (s->state == SLOT_ENDED)
		pthread_join(s->thread, NULL);
	*s = (struct worker_slot){.of = w};
	int rc = thread_start(&s->thread, "worker", worker_main, s);
	if (rc != 0)
		return rc;
	s->state = SLOT_RUNS;
	w->n_threads++;
	return 0;
}

enum status workers_create(const struct workers_opts *o, struct workers **out,
			   struct fail *fail)
{
	struct workers *w = xcalloc(1, sizeof *w + (size_t)o->max * sizeof *w->slots);
	pthread_condattr_t attr;
	w->opts = *o;
	STAILQ_INIT(&w->few);
	STAILQ_INIT(&w->jobs);
	STAILQ_INIT(&w->ended);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->has_job, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_lock(&w->lock);
	int rc = workers_start(w);
	pthread_mutex_unlock(&w->lock);
	if (rc == 0) {
		*out = w;
		return OK;
	}
	workers_destroy(w);
	return fail_set(fail, E_LIMIT, "no thread can be started for requests: %s", strerror(rc));
}

void workers_destroy(struct workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->is_over = true;
	pthread_cond_broadcast(&w->has_job);
	pthread_mutex_unlock(&w->lock);
	for (int i = 0; i < w->opts.max; i++) {
		pthread_mutex_lock(&w->lock);
		bool is_used = w->slots[i].state != SLOT_FREE;
		pthread_mutex_unlock(&w->lock);
		if (is_used)
			pthread_join(w->slots[i].thread, NULL);
	}
	STAILQ_CONCAT(&w->ended, &w->jobs);
	STAILQ_CONCAT(&w->ended, &w->few);
	while (!STAILQ_EMPTY(&w->ended)) {
		struct worker_job *j = STAILQ_FIRST(&w->ended);
		STAILQ_REMOVE_HEAD(&w->ended, link);
		free(j);
	}
	pthread_cond_destroy(&w->has_job);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void submit(struct workers *w, struct worker_job *j)
{
	int rc = 0;
	pthread_mutex_lock(&w->lock);
	STAILQ_INSERT_TAIL(&w->jobs, j, link);
	w->n_jobs++;
	if (w->n_jobs > w->n_idle && w->n_threads < w->opts.max)
		rc = workers_start(w);
	int n = w->n_threads;
	pthread_cond_signal(&w->has_job);
	pthread_mutex_unlock(&w->lock);
	if (rc != 0 && !w->is_refused)
		log_warn("only %d of %d threads for requests can be started: %s", n, w->opts.max,
			 strerror(rc));
	w->is_refused |= rc != 0;
}

static struct worker_job *new_job(struct workers *w, void (*fn)(void *), void (*done)(void *),
				  void *arg)
{
	struct worker_job *j = xmalloc(sizeof *j);
	*j = (struct worker_job){.fn = fn, .done = done, .arg = arg};
	w->n_pending++;
	return j;
}

void workers_run(struct workers *w, void (*fn)(void *arg), void (*done)(void *arg), void *arg)
{
	submit(w, new_job(w, fn, done, arg));
}

static void submit_few(struct workers *w)
{
	struct worker_job *j;
	while (w->n_few < w->opts.max_few && (j = STAILQ_FIRST(&w->few))) {
		STAILQ_REMOVE_HEAD(&w->few, link);
		w->n_few++;
		submit(w, j);
	}
}

void workers_run_few(struct workers *w, void (*fn)(void *arg), void (*done)(void *arg), void *arg)
{
	struct worker_job *j = new_job(w, fn, done, arg);
	j->is_few = true;
	STAILQ_INSERT_TAIL(&w->few, j, link);
	submit_few(w);
}

int workers_collect(struct workers *w)
{
	int n = 0;
	struct worker_job_list ended = STAILQ_HEAD_INITIALIZER(ended);
	pthread_mutex_lock(&w->lock);
	STAILQ_CONCAT(&ended, &w->ended);
	pthread_mutex_unlock(&w->lock);
	for (; !STAILQ_EMPTY(&ended); n++) {
		struct worker_job *j = STAILQ_FIRST(&ended);
		STAILQ_REMOVE_HEAD(&ended, link);
		w->n_pending--;
		w->n_few -= j->is_few;
		submit_few(w);
		j->done(j->arg);
		free(j);
	}
	return n;
}

int workers_pending(const struct workers *w) { return w->n_pending; }

int workers_threads(struct workers *w)
{
	pthread_mutex_lock(&w->lock);
	int n = w->n_threads;
	pthread_mutex_unlock(&w->lock);
	return n;
}
