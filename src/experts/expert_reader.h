/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads experts from a store, several at a time, while another thread computes.
 *
 * By io_uring where the kernel has it, with the slots as registered buffers; else by
 * threads with pread. A read goes to the disk in pieces, which become smaller towards its end.
 * The sum of a piece is computed while other pieces are read, and the total is compared before
 * a read counts as done. So little work is left after the last byte. Completion is a word in
 * memory: if the bytes are there, expert_reader_wait makes no system call, else it sleeps on a
 * futex. The waiter is woken before the last piece is summed, and then spins.
 *
 * Thread: one thread calls; the reader's own threads do the rest.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum expert_read_state {
	EXPERT_READ_NONE,   /* nothing was asked for yet */
	EXPERT_READ_RUNS,
	EXPERT_READ_GOOD,
	EXPERT_READ_SHORT,  /* the file ended */
	EXPERT_READ_ERROR,  /* a read failed, see `error` */
	EXPERT_READ_SUM,    /* the bytes are not those that were stored */
};

enum {
	EXPERT_READ_DEPTH = 16, /* pieces at a time if nothing was measured */
	EXPERT_READ_MAX_DEPTH = 128,
	EXPERT_READ_ALIGN = 4096,
	EXPERT_READ_PIECE = 128 << 10, /* the smallest piece, and the unit of sums */
	EXPERT_READ_MAX_PIECE = 512 << 10
};

struct expert_read {
	uint8_t *to;     /* aligned to EXPERT_READ_ALIGN */
	uint64_t at, sum;
	size_t n;        /* multiple of EXPERT_READ_ALIGN, not 0 */
	_Atomic int state;
	atomic_int error; /* errno of a piece that failed; pieces fail side by side */
	int64_t last_ns; /* CLOCK_MONOTONIC: when the last piece had arrived */
	/* The reader's own fields. */
	struct expert_read *next;
	size_t n_begun;
	_Atomic int n_left, fault; /* pieces not done yet; a fault of one of the pieces */
	_Atomic uint64_t got;      /* the sum of the pieces that are there */
};

/* The sum of an expert's n bytes, in the order of their pieces. */
uint64_t expert_reader_sum(const uint8_t *p, size_t n);

struct expert_reader_opts {
	int fd;
	bool is_direct;  /* fd bypasses the page cache; else bytes are dropped from it after they
			  * were read */
	int depth;       /* pieces at a time; 0: EXPERT_READ_DEPTH */
	size_t piece;    /* size of a read's first pieces, multiple of EXPERT_READ_PIECE; 0:
			  * EXPERT_READ_PIECE */
	bool no_uring;   /* read by threads, even if there is io_uring */
	uint8_t *slots;  /* memory that all reads go to; io_uring registers it */
	size_t slots_bytes, slot_bytes;
	/* Replaces pread(2) in the threads; no_uring must be set. NULL: pread. */
	ssize_t (*pread)(void *ctx, int fd, void *to, size_t n, off_t at);
	void *ctx;
};

struct expert_reader;
struct expert_reader *expert_reader_create(const struct expert_reader_opts *o);
/* Call it when all reads are done. */
void expert_reader_destroy(struct expert_reader *r);
/* "io_uring with registered buffers, 16 reads of up to 128 KiB at a time" */
const char *expert_reader_note(const struct expert_reader *r);
/* Begin n reads, whose to, at, n and sum are set. They begin in this order and may end in any
 * order. x[i] and x[i]->to belong to the reader until they are done. */
void expert_reader_submit(struct expert_reader *r, struct expert_read **x, int n);
static inline bool expert_read_is_done(struct expert_read *x)
{
	return atomic_load_explicit(&x->state, memory_order_acquire) != EXPERT_READ_RUNS;
}
/* Returns when x is done. */
void expert_reader_wait(struct expert_reader *r, struct expert_read *x);
/* What went wrong, as text: "short read: the file ended". */
const char *expert_read_fault(const struct expert_read *x);
