/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/tap.h"

static sem_t ended, may_end;
static _Atomic int n_running, most;
static int n_done;

static void on_done(void *ctx)
{
	(void)ctx;
	sem_post(&ended);
}

static void hold(void *arg)
{
	(void)arg;
	int n = atomic_fetch_add(&n_running, 1) + 1, was = atomic_load(&most);
	while (n > was && !atomic_compare_exchange_weak(&most, &was, n))
		;
	sem_wait(&may_end);
	atomic_fetch_sub(&n_running, 1);
}

static void done(void *arg)
{
	(void)arg;
	n_done++;
}

/* Waits until n jobs run at once; gives up after a minute. */
static bool run_at_once(int n)
{
	for (int i = 0; i < 60000 && atomic_load(&n_running) != n; i++)
		usleep(1000);
	return atomic_load(&n_running) == n;
}

static void collect(struct workers *w, int n)
{
	for (int i = 0; i < n; i++)
		sem_post(&may_end);
	for (int i = 0; i < n; i++)
		sem_wait(&ended);
	workers_collect(w);
}

static void test_threads(void)
{
	struct workers *w;
	struct workers_opts o = {.max = 3, .idle_ms = 1, .on_done = on_done};
	n_done = 0;
	ok(workers_create(&o, &w, NULL) == OK && workers_threads(w) == 1,
	   "one thread runs from the start");
	for (int i = 0; i < 5; i++)
		workers_run(w, hold, done, NULL);
	ok(run_at_once(3) && workers_pending(w) == 5, "as many jobs run as threads may");
	collect(w, 5);
	ok(n_done == 5 && workers_pending(w) == 0 && atomic_load(&most) == 3,
	   "all have run, never more at once");
	int n = 0;
	for (int i = 0; i < 60000 && (n = workers_threads(w)) > 1; i++)
		usleep(1000);
	ok(n == 1, "idle threads end, but for one");
	for (int i = 0; i < 3; i++)
		workers_run(w, hold, done, NULL);
	ok(run_at_once(3), "and start again");
	collect(w, 3);
	workers_destroy(w);
}

/* Of jobs that wait for each other a few have threads. They are done in order. */
static void test_few(void)
{
	struct workers *w;
	struct workers_opts o = {.max = 8, .max_few = 2, .idle_ms = 100000, .on_done = on_done};
	n_done = 0;
	atomic_store(&most, 0);
	ok(workers_create(&o, &w, NULL) == OK, "eight threads");
	for (int i = 0; i < 20; i++)
		workers_run_few(w, hold, done, NULL);
	ok(run_at_once(2) && workers_pending(w) == 20, "two of twenty jobs run");
	workers_run(w, hold, done, NULL);
	ok(run_at_once(3), "another one does not wait for them");
	for (int i = 0; i < 21; i++)
		collect(w, 1);
	ok(n_done == 21 && workers_pending(w) == 0 && atomic_load(&most) == 3,
	   "all have run, never more at once");
	for (int i = 0; i < 5; i++)
		workers_run_few(w, hold, done, NULL);
	ok(run_at_once(2), "two of five");
	sem_post(&may_end);
	sem_post(&may_end);
	workers_destroy(w); /* those that have not begun are left out */
	is_int(n_done, 21, "and at the end the rest is left out");
	sem_wait(&ended);
	sem_wait(&ended);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* No further thread has an address for its stack. */
static void test_limit(void)
{
	struct workers *w, *none;
	struct fail f;
	struct workers_opts o = {.max = 4, .idle_ms = 100000, .on_done = on_done};
	struct rlimit was, now;
	ok(workers_create(&o, &w, NULL) == OK, "threads within the limits");
	getrlimit(RLIMIT_AS, &was);
	now = was;
	now.rlim_cur = 1;
	setrlimit(RLIMIT_AS, &now);
	enum status st = workers_create(&o, &none, &f);
	n_done = 0;
	for (int i = 0; i < 4; i++)
		workers_run(w, nothing, done, NULL);
	setrlimit(RLIMIT_AS, &was);
	ok(st == E_LIMIT && strstr(f.text, "no thread can be started"),
	   "where the system permits no thread, a sentence says so");
	for (int i = 0; i < 4; i++)
		sem_wait(&ended);
	workers_collect(w);
	ok(n_done == 4 && workers_threads(w) == 1, "where it permits one, that one does all jobs");
	workers_destroy(w);
}

int main(void)
{
	sem_init(&ended, 0, 0);
	sem_init(&may_end, 0, 0);
	/* Sanitizers need addresses, and glibc keeps stacks of threads that ended. */
	if (!TAP_IS_SANITIZED)
		test_limit();
	test_threads();
	test_few();
	return tap_done();
}
