/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the two ways of reading: threads and io_uring.
 */
#pragma once
#include <pthread.h>

#include "experts/expert_reader.h"

struct expert_uring;

/* A part of a read that was handed to the disk. */
struct expert_piece {
	struct expert_read *x;
	size_t at, n, n_done; /* at: offset within the read */
	struct expert_piece *next;
};

struct expert_reader {
	struct expert_reader_opts o;
	char note[120];
	_Atomic uint32_t n_done;    /* futex: grows with each read that is done */
	_Atomic(struct expert_read *) awaited; /* the read that expert_reader_wait waits for;
					        * NULL: none */
	pthread_mutex_t lock;       /* protects what follows */
	pthread_cond_t more;
	struct expert_read *first, **last; /* reads with pieces that were not begun */
	struct expert_piece pieces[EXPERT_READ_MAX_DEPTH], *free;
	bool stops;
	pthread_t threads[EXPERT_READ_MAX_DEPTH];
	int n_threads;
	struct expert_uring *uring; /* NULL: threads read */
};

/* A piece has ended, well or not (and then x->error is set). Called without the lock. The
 * caller must give the piece back. */
void expert_reader_finish(struct expert_reader *r, struct expert_piece *p,
			  enum expert_read_state state);
/* The next piece, or NULL: none is waiting, or `depth` pieces are with the disk already. The
 * lock is held. */
struct expert_piece *expert_reader_pop(struct expert_reader *r);
void expert_reader_give_back(struct expert_reader *r, struct expert_piece *p);

/* Sets r->uring before the ring's thread begins. False: this build or this kernel has no
 * io_uring. */
bool expert_uring_create(struct expert_reader *r);
/* Begin as many waiting pieces as there is room for. The lock is held. */
void expert_uring_pump(struct expert_reader *r);
/* Call it after the last read. */
void expert_uring_destroy(struct expert_reader *r);
