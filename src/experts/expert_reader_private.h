/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the two ways of reading.
 */
#pragma once
#include <pthread.h>

#include "experts/expert_reader.h"

struct expert_uring;

/* A part of a read that is with the disk. */
struct expert_piece {
	struct expert_read *x;
	size_t at, n, n_done; /* at: within the read */
	struct expert_piece *next;
};

struct expert_reader {
	struct expert_reader_opts o;
	char note[120];
	_Atomic uint32_t n_done;    /* futex: grows with each read that is done */
	_Atomic(struct expert_read *) awaited; /* NULL: nobody waits */
	pthread_mutex_t lock;       /* of what follows */
	pthread_cond_t more;
	struct expert_read *first, **last; /* reads of which pieces wait */
	struct expert_piece pieces[EXPERT_READ_MAX_DEPTH], *free;
	bool stops;
	pthread_t threads[EXPERT_READ_MAX_DEPTH];
	int n_threads;
	struct expert_uring *uring; /* NULL: threads read */
};

/* A piece has ended, well or not (and then x->error is set). Without the lock. It is the
 * caller's to give back. */
void expert_reader_finish(struct expert_reader *r, struct expert_piece *p,
			  enum expert_read_state state);
/* The next piece, or NULL: none waits, or too many are with the disk. The lock is held. */
struct expert_piece *expert_reader_pop(struct expert_reader *r);
void expert_reader_give_back(struct expert_reader *r, struct expert_piece *p);

/* Sets r->uring before its thread begins. False: there is no io_uring, in this build or from
 * this kernel. */
bool expert_uring_create(struct expert_reader *r);
/* Begin as many of the waiting pieces as there is room for. The lock is held. */
void expert_uring_pump(struct expert_reader *r);
/* Call it after the last read. */
void expert_uring_destroy(struct expert_reader *r);
