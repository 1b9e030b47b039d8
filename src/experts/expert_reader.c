/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/expert_reader_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"

enum { SPIN_NS = 150000 };

/* --- completion --------------------------------------------------------------------- */

/* The sum of n bytes; the first is that of unit i of an expert. */
static uint64_t sum_of_units(const uint8_t *p, size_t n, size_t i)
{
	uint64_t sum = 0;
	for (size_t at = 0; at < n; at += EXPERT_READ_PIECE, i++)
		sum += hash_bytes(i, p + at, MIN(n - at, (size_t)EXPERT_READ_PIECE));
	return sum;
}

uint64_t expert_reader_sum(const uint8_t *p, size_t n)
{
	return sum_of_units(p, n, 0);
}

static void wake(struct expert_reader *r, const struct expert_read *x)
{
	atomic_fetch_add(&r->n_done, 1);
	if (atomic_load(&r->awaited) == x)
		syscall(SYS_futex, &r->n_done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The last piece of x is there. Either the waiter sees the new state, or this function sees the
 * waiter, because all threads see these atomic operations in one order. */
static void finish_read(struct expert_reader *r, struct expert_read *x)
{
	int state = atomic_load(&x->fault);
	if (state == EXPERT_READ_GOOD && atomic_load(&x->got) != x->sum)
		state = EXPERT_READ_SUM;
	if (!r->o.is_direct)
		posix_fadvise(r->o.fd, (off_t)x->at, (off_t)x->n, POSIX_FADV_DONTNEED);
	atomic_store(&x->state, state);
	wake(r, x);
}

void expert_reader_finish(struct expert_reader *r, struct expert_piece *p,
			  enum expert_read_state state)
{
	struct expert_read *x = p->x;
	int64_t seen = clock_monotonic_ns();
	/* To wake a thread takes as long as to sum a piece. So wake the waiter before the last
	 * sum. */
	if (atomic_load(&x->n_left) == 1)
		wake(r, x);
	if (state == EXPERT_READ_GOOD)
		atomic_fetch_add(&x->got, sum_of_units(x->to + p->at, p->n,
						       p->at / EXPERT_READ_PIECE));
	else
		atomic_store(&x->fault, (int)state);
	int n_before = atomic_fetch_sub(&x->n_left, 1);
	/* A sleeping core takes long to wake. So wake the waiter while the last piece is still
	 * being read. */
	if (n_before == 2)
		wake(r, x);
	if (n_before != 1)
		return;
	x->last_ns = seen;
	finish_read(r, x);
}

/* The waiter, woken before the last piece is done, polls for up to SPIN_NS. */
static bool is_done_soon(struct expert_read *x)
{
	int64_t begin = clock_monotonic_ns();
	while (!expert_read_is_done(x))
		if (atomic_load(&x->n_left) > 1 || clock_monotonic_ns() - begin > SPIN_NS)
			return false;
	return true;
}

void expert_reader_wait(struct expert_reader *r, struct expert_read *x)
{
	if (expert_read_is_done(x))
		return;
	atomic_store(&r->awaited, x);
	for (;;) {
		uint32_t seen = atomic_load(&r->n_done);
		if (is_done_soon(x))
			break;
		syscall(SYS_futex, &r->n_done, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	atomic_store(&r->awaited, NULL);
}

const char *expert_read_fault(const struct expert_read *x)
{
	switch (atomic_load(&x->state)) {
	case EXPERT_READ_SHORT: return "short read: the file has become shorter";
	case EXPERT_READ_ERROR: return strerror(atomic_load(&x->error));
	case EXPERT_READ_SUM: return "its bytes are not those that were stored";
	default: return "no fault";
	}
}

/* --- pieces ------------------------------------------------------------------------- */

/* Bytes of the next piece if n are left: at most half of them, so that the last pieces are
 * small and soon summed. */
static size_t next_piece(const struct expert_reader *r, size_t n)
{
	size_t half = n / 2 / EXPERT_READ_PIECE * EXPERT_READ_PIECE;
	return MIN(n, MIN(r->o.piece, MAX(half, (size_t)EXPERT_READ_PIECE)));
}

static int count_pieces(const struct expert_reader *r, size_t n)
{
	int n_pieces = 0;
	for (; n > 0; n_pieces++)
		n -= next_piece(r, n);
	return n_pieces;
}

struct expert_piece *expert_reader_pop(struct expert_reader *r)
{
	struct expert_read *x = r->first;
	struct expert_piece *p = r->free;
	if (!x || !p)
		return NULL;
	r->free = p->next;
	*p = (struct expert_piece){.x = x, .at = x->n_begun};
	p->n = next_piece(r, x->n - x->n_begun);
	x->n_begun += p->n;
	if (x->n_begun < x->n)
		return p;
	r->first = x->next;
	if (!r->first)
		r->last = &r->first;
	return p;
}

void expert_reader_give_back(struct expert_reader *r, struct expert_piece *p)
{
	p->next = r->free;
	r->free = p;
}

/* --- threads ------------------------------------------------------------------------ */

static ssize_t plain_pread(void *ctx, int fd, void *to, size_t n, off_t at)
{
	(void)ctx;
	return pread(fd, to, n, at);
}

static enum expert_read_state read_piece(const struct expert_reader *r,
					 struct expert_piece *p)
{
	struct expert_read *x = p->x;
	while (p->n_done < p->n) {
		size_t at = p->at + p->n_done;
		ssize_t got = r->o.pread(r->o.ctx, r->o.fd, x->to + at, p->n - p->n_done,
					 (off_t)(x->at + at));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			atomic_store(&x->error, errno);
			return EXPERT_READ_ERROR;
		}
		p->n_done += (size_t)got;
		if (got == 0 || p->n_done % EXPERT_READ_ALIGN) /* the file's end, or a read that
							        * stops just before it */
			return EXPERT_READ_SHORT;
	}
	return EXPERT_READ_GOOD;
}

static void *read_thread(void *arg)
{
	struct expert_reader *r = arg;
	pthread_mutex_lock(&r->lock);
	for (;;) {
		struct expert_piece *p = expert_reader_pop(r);
		if (!p && r->stops)
			break;
		if (!p) {
			pthread_cond_wait(&r->more, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		expert_reader_finish(r, p, read_piece(r, p));
		pthread_mutex_lock(&r->lock);
		expert_reader_give_back(r, p);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void start_threads(struct expert_reader *r)
{
	while (r->n_threads < r->o.depth &&
	       thread_start(&r->threads[r->n_threads], "expert-read", read_thread, r) == 0)
		r->n_threads++;
	snprintf(r->note, sizeof r->note, "%d threads", r->n_threads);
}

/* --- both --------------------------------------------------------------------------- */

struct expert_reader *expert_reader_create(const struct expert_reader_opts *o)
{
	struct expert_reader *r = xcalloc(1, sizeof *r);
	r->o = *o;
	r->o.depth = MIN(MAX(o->depth ? o->depth : EXPERT_READ_DEPTH, 1),
			 EXPERT_READ_MAX_DEPTH);
	r->o.piece = MAX(o->piece, (size_t)EXPERT_READ_PIECE);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->more, NULL);
	r->last = &r->first;
	for (int i = 0; i < r->o.depth; i++)
		expert_reader_give_back(r, &r->pieces[i]);
	if (!o->pread)
		r->o.pread = plain_pread;
	if (o->no_uring || o->pread || !expert_uring_create(r))
		start_threads(r);
	return r;
}

void expert_reader_destroy(struct expert_reader *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stops = true;
	pthread_cond_broadcast(&r->more);
	pthread_mutex_unlock(&r->lock);
	if (r->uring)
		expert_uring_destroy(r);
	for (int i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->more);
	free(r);
}

const char *expert_reader_note(const struct expert_reader *r)
{
	return r->note;
}

void expert_reader_submit(struct expert_reader *r, struct expert_read **x, int n)
{
	if (n == 0)
		return;
	for (int i = 0; i < n; i++) {
		x[i]->n_begun = 0;
		x[i]->next = i + 1 < n ? x[i + 1] : NULL;
		atomic_store(&x[i]->got, 0);
		atomic_store(&x[i]->fault, EXPERT_READ_GOOD);
		atomic_store(&x[i]->n_left, count_pieces(r, x[i]->n));
		atomic_store(&x[i]->state, EXPERT_READ_RUNS);
	}
	pthread_mutex_lock(&r->lock);
	*r->last = x[0];
	r->last = &x[n - 1]->next;
	if (r->uring)
		expert_uring_pump(r);
	else if (r->n_threads > 0)
		pthread_cond_broadcast(&r->more);
	else /* no thread could be started: every read fails */
		for (struct expert_piece *p; (p = expert_reader_pop(r));
		     expert_reader_give_back(r, p))
			expert_reader_finish(r, p, read_piece(r, p));
	pthread_mutex_unlock(&r->lock);
}
