/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread pool that runs one loop in parallel. Thread: pool_for from one at a time.
 *
 * pool_for cuts [0, n) into pieces of at least `grain`. Each thread takes the pieces of
 * its own range in order, then pieces that others have left, so unequal cores stay busy.
 * Idle threads sleep on a condition variable: an idle daemon uses no CPU.
 */
#pragma once

struct pool;

/* n_threads counts the calling thread: 1 starts no other thread. 0 means one thread per
 * CPU that the process may use. */
struct pool *pool_create(int n_threads);
void pool_destroy(struct pool *p);
int pool_threads(const struct pool *p);
/* pool_pin pins worker i to the i-th CPU that pool_create's caller could use, round
 * robin. CPU 0 of that list is the caller's: pool_pin_caller pins the calling thread
 * there, until pool_unpin_caller. Best effort: a refusal by the system is ignored. p may
 * be NULL. */
void pool_pin(struct pool *p);
void pool_pin_caller(const struct pool *p);
void pool_unpin_caller(const struct pool *p);
/* Call fn(arg, begin, end) for pieces that cover [0, n) exactly once. Returns when all
 * are done. p may be NULL: then the caller runs the whole range. */
void pool_for(struct pool *p, int n, int grain,
	      void (*fn)(void *arg, int begin, int end), void *arg);
