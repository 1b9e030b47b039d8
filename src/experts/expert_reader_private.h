/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the two ways of reading.
 */
#pragma once
#include <pthread.h>

#include "experts/expert_reader.h"

struct expert_uring;

struct expert_reader {
	struct expert_reader_opts o;
	char note[120];
	_Atomic uint32_t n_done;    /* futex: grows with each read that is done */
	_Atomic bool has_waiter;
	pthread_mutex_t lock;       /* of what follows */
	pthread_cond_t more;
	struct expert_read *first, **last; /* reads that wait for a thread or a place */
	bool stops;
	pthread_t threads[EXPERT_READ_MAX_DEPTH];
	int n_threads;
	struct expert_uring *uring; /* NULL: threads read */
};

/* All bytes are there, or error or the end came: decide, and tell who waits. */
void expert_reader_finish(struct expert_reader *r, struct expert_read *x,
			  enum expert_read_state state);
/* The first read that waits, or NULL; the lock is held. */
struct expert_read *expert_reader_pop(struct expert_reader *r);

/* NULL: there is no io_uring, in this build or from this kernel. */
struct expert_uring *expert_uring_create(struct expert_reader *r);
/* Begin as many of the waiting reads as there is room for. The lock is held. */
void expert_uring_pump(struct expert_reader *r);
/* Call it after the last read. */
void expert_uring_destroy(struct expert_reader *r);
