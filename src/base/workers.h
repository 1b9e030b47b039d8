/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads for jobs that take too long for their owner's thread. Thread: the owner's, every
 * call; only opts.on_done runs on a worker.
 *
 * A thread is started when a job finds none idle. Where the system permits no further
 * thread, the job waits for one of those that run. A thread that stays idle for long ends,
 * and memory that jobs have freed goes back to the system.
 */
#pragma once
#include "base/status.h"

struct workers;

struct workers_opts {
	int max;     /* threads at most */
	int max_few; /* jobs of workers_run_few that run at once, at most */
	int idle_ms; /* a thread that waits longer ends, but for the first one */
	void (*on_done)(void *ctx); /* a job has ended: the owner calls workers_collect */
	void *ctx;
};

/* Starts the first thread. E_LIMIT: the system permits none. */
enum status workers_create(const struct workers_opts *o, struct workers **out,
			   struct fail *fail) MUST_USE;
/* Waits for the jobs that run. Those that have not begun, and `done` of all, are left out. */
void workers_destroy(struct workers *w);
/* Runs fn(arg) on a worker. A later workers_collect calls done(arg). */
void workers_run(struct workers *w, void (*fn)(void *arg), void (*done)(void *arg), void *arg);
/* The same for jobs that wait for each other, and so take a thread that does nothing. The others
 * wait in line without one. */
void workers_run_few(struct workers *w, void (*fn)(void *arg), void (*done)(void *arg), void *arg);
/* Calls `done` of each job that has ended. Returns how many these were. */
int workers_collect(struct workers *w);
int workers_pending(const struct workers *w); /* jobs whose `done` was not called yet */
int workers_threads(struct workers *w);       /* threads that run now */
