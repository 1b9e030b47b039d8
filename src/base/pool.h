/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that share one loop. Thread: pool_for from one thread at a time.
 *
 * pool_for cuts [0, n) into pieces of at least `grain`. Each thread takes those of its
 * own part in order, then what the others have left, so unequal cores stay busy.
 * Threads sleep on a futex-backed condition when idle: an idle daemon uses no CPU.
 */
#pragma once

struct pool;

/* n_threads counts the caller: 1 means no extra thread; 0 means one per CPU
 * the process may run on. */
struct pool *pool_create(int n_threads);
void pool_destroy(struct pool *p);
int pool_threads(const struct pool *p);
/* Worker i stays on the i-th of the CPUs that pool_create's caller could use, from the
 * first again where there are fewer; the calling thread is on the first of them, which the
 * workers leave to it, from pool_pin_caller to pool_unpin_caller. Wishes: where the system
 * refuses, threads run as before. p may be NULL. */
void pool_pin(struct pool *p);
void pool_pin_caller(const struct pool *p);
void pool_unpin_caller(const struct pool *p);
/* fn(arg, begin, end) for pieces that cover [0, n) once; returns when all are
 * done. p may be NULL: then the caller runs the whole range. */
void pool_for(struct pool *p, int n, int grain,
	      void (*fn)(void *arg, int begin, int end), void *arg);
