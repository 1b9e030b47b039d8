/* SPDX-License-Identifier: Apache-2.0
 *
 * Each thread first does its own contiguous range of the loop in order, so that it reads
 * contiguous memory. A thread that is done takes pieces of the other threads' ranges.
 *
 * One word, `state`, decides who may touch the current job. Its low half counts the
 * workers inside, the bit OPEN lets more in, and the high half numbers the jobs.
 *
 *   caller                              worker
 *   writes fn, arg, n; state = new|OPEN
 *   wakes sleepers                      sees OPEN and a job number new to it:
 *   takes pieces until none is left       state + 1, takes pieces, state - 1
 *   clears OPEN, waits for 0 inside
 *
 * So the caller never waits for a worker that has not begun. A worker that sleeps or lost
 * its core comes late, finds OPEN cleared, and costs nothing. Decoding runs some hundred
 * short loops a token. A worker therefore spins a few tens of microseconds for the next
 * job before it goes to sleep.
 *
 * Sleeping and waking is Dekker's pattern: the caller writes state, then reads n_asleep;
 * the worker writes n_asleep, then reads state. Both are sequentially consistent, so one
 * of them sees the other.
 */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

#define OPEN (UINT64_C(1) << 31)
#define INSIDE (OPEN - 1) /* mask of the number of workers inside */
#define JOB (UINT64_C(1) << 32)
#define SPIN_ROUNDS 2000     /* 15 to 80 us, depending on the CPU's pause instruction */
#define PIECES_PER_THREAD 16 /* small pieces at the end even out threads of unequal speed */

struct pool_run {
	_Atomic int64_t next; /* first index not taken yet; >= end: none is left */
	int64_t end;
	char apart[112]; /* padding: two runs never share a cache line */
};

struct worker {
	struct pool *p;
	int i;
};

struct pool {
	_Atomic uint64_t state;
	int piece;
	struct pool_run *runs; /* (n_threads) */
	void (*fn)(void *arg, int begin, int end);
	void *arg;

	int n_threads, n_started, spin_rounds;
	cpu_set_t cpus; /* CPUs that pool_create's caller may use */
	pthread_t *threads;
	struct worker *workers; /* (n_threads); entry 0 is the caller and stays unused */
	pthread_mutex_t lock;
	pthread_cond_t work, idle;
	_Atomic int n_asleep;
	atomic_bool is_caller_waiting;
	atomic_bool is_over;
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void take_run(struct pool *p, struct pool_run *r)
{
	int64_t begin;
	while ((begin = atomic_fetch_add_explicit(&r->next, p->piece,
						  memory_order_relaxed)) < r->end)
		p->fn(p->arg, (int)begin, (int)MIN(begin + p->piece, r->end));
}

/* Do the pieces of thread i's own run first, then those of the others. */
static void take_pieces(struct pool *p, int i)
{
	for (int k = 0; k < p->n_threads; k++)
		take_run(p, &p->runs[(i + k) % p->n_threads]);
}

/* Divide [0, n) into one run a thread. Each run but the last is a whole number of pieces. */
static void cut_runs(struct pool *p, int n, int piece, int n_pieces)
{
	int64_t first = 0;
	p->piece = piece;
	for (int i = 0; i < p->n_threads; i++) {
		int64_t last = (int64_t)n_pieces * (i + 1) / p->n_threads * piece;
		p->runs[i].end = MIN(last, n);
		atomic_store_explicit(&p->runs[i].next, first, memory_order_relaxed);
		first = last;
	}
}

static bool is_new_job(uint64_t state, uint64_t seen)
{
	return (state & OPEN) && (state & ~(JOB - 1)) != seen;
}

/* Enter the job if it is open and new; then *seen becomes its number. */
static bool pool_enter(struct pool *p, uint64_t *seen)
{
	uint64_t s = atomic_load(&p->state);
	while (is_new_job(s, *seen)) {
		if (atomic_compare_exchange_weak(&p->state, &s, s + 1)) {
			*seen = s & ~(JOB - 1);
			return true;
		}
	}
	return false;
}

static void leave(struct pool *p)
{
	uint64_t before = atomic_fetch_sub(&p->state, 1);
	if ((before & INSIDE) == 1 && atomic_load(&p->is_caller_waiting)) {
		pthread_mutex_lock(&p->lock);
		pthread_cond_signal(&p->idle);
		pthread_mutex_unlock(&p->lock);
	}
}

static void sleep_until_work(struct pool *p, uint64_t seen)
{
	pthread_mutex_lock(&p->lock);
	p->n_asleep++;
	while (!is_new_job(atomic_load(&p->state), seen) && !p->is_over)
		pthread_cond_wait(&p->work, &p->lock);
	p->n_asleep--;
	pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->p;
	uint64_t seen = 0;
	int idle_rounds = 0;
	while (!atomic_load_explicit(&p->is_over, memory_order_relaxed)) {
		if (pool_enter(p, &seen)) {
			take_pieces(p, w->i);
			leave(p);
			idle_rounds = 0;
		} else if (idle_rounds++ < p->spin_rounds) {
			pause_cpu();
		} else {
			sleep_until_work(p, seen);
			idle_rounds = 0;
		}
	}
	return NULL;
}

static int usable_cpus(cpu_set_t *out)
{
	if (sched_getaffinity(0, sizeof *out, out) == 0)
		return CPU_COUNT(out);
	CPU_ZERO(out); /* more CPUs than a cpu_set_t holds: pin nothing */
	return 1;
}

static void start_threads(struct pool *p)
{
	for (int i = 1; i < p->n_threads; i++) {
		p->workers[i] = (struct worker){p, i};
		char name[24];
		snprintf(name, sizeof name, "pool-%d", i);
		if (thread_start(&p->threads[p->n_started], name, worker_main,
				 &p->workers[i]) != 0)
			break; /* go on with fewer threads: the results are the same */
		p->n_started++;
	}
}

struct pool *pool_create(int n_threads)
{
	struct pool *p = xcalloc(1, sizeof *p);
	int cpus = usable_cpus(&p->cpus);
	p->n_threads = n_threads > 0 ? n_threads : cpus;
	/* With more threads than CPUs, a spinning thread would take a CPU from a working
	 * one. */
	p->spin_rounds = p->n_threads <= cpus ? SPIN_ROUNDS : 0;
	p->threads = xcalloc((size_t)p->n_threads, sizeof *p->threads);
	p->workers = xcalloc((size_t)p->n_threads, sizeof *p->workers);
	p->runs = xcalloc((size_t)p->n_threads, sizeof *p->runs);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->idle, NULL);
	start_threads(p);
	return p;
}

void pool_destroy(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_over = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < p->n_started; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->idle);
	pthread_mutex_destroy(&p->lock);
	free(p->runs);
	free(p->workers);
	free(p->threads);
	free(p);
}

int pool_threads(const struct pool *p) { return p ? p->n_started + 1 : 1; }

static void pin(const struct pool *p, pthread_t thread, int i)
{
	int n_cpus = CPU_COUNT(&p->cpus), cpu = 0;
	if (n_cpus == 0)
		return;
	for (i %= n_cpus; !CPU_ISSET(cpu, &p->cpus) || i-- > 0;)
		cpu++;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(thread, sizeof one, &one); /* best effort: a failure is ignored */
}

void pool_pin(struct pool *p)
{
	for (int i = 1; p && i <= p->n_started; i++)
		pin(p, p->threads[i - 1], i);
}

void pool_pin_caller(const struct pool *p)
{
	if (p)
		pin(p, pthread_self(), 0);
}

void pool_unpin_caller(const struct pool *p)
{
	if (p && CPU_COUNT(&p->cpus) > 0)
		pthread_setaffinity_np(pthread_self(), sizeof p->cpus, &p->cpus);
}

static void wake_workers(struct pool *p, int n_pieces)
{
	int n = atomic_load(&p->n_asleep);
	if (n == 0)
		return;
	n = MIN(n, n_pieces - 1); /* the caller takes one piece itself */
	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < n; i++)
		pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

static bool is_anyone_inside(struct pool *p)
{
	return (atomic_load(&p->state) & INSIDE) != 0;
}

static void wait_for_workers(struct pool *p)
{
	for (int i = 0; i < p->spin_rounds && is_anyone_inside(p); i++)
		pause_cpu();
	if (!is_anyone_inside(p))
		return;
	pthread_mutex_lock(&p->lock);
	p->is_caller_waiting = true;
	while (is_anyone_inside(p))
		pthread_cond_wait(&p->idle, &p->lock);
	p->is_caller_waiting = false;
	pthread_mutex_unlock(&p->lock);
}

void pool_for(struct pool *p, int n, int grain,
	      void (*fn)(void *arg, int begin, int end), void *arg)
{
	if (n <= 0)
		return;
	int piece = MAX(grain, 1);
	if (p && n / (pool_threads(p) * PIECES_PER_THREAD) > piece)
		piece = n / (pool_threads(p) * PIECES_PER_THREAD);
	int n_pieces = n / piece + (n % piece != 0);
	if (!p || p->n_started == 0 || n_pieces == 1) {
		fn(arg, 0, n);
		return;
	}
	/* OPEN is clear and no worker is inside, so this thread may write the job's
	 * fields. */
	p->fn = fn;
	p->arg = arg;
	cut_runs(p, n, piece, n_pieces);
	atomic_fetch_add(&p->state, JOB + OPEN);
	wake_workers(p, n_pieces);
	take_pieces(p, 0);
	atomic_fetch_and(&p->state, ~OPEN);
	wait_for_workers(p);
}
