/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading by io_uring. The computing thread submits reads. One thread of the reader takes
 * completed pieces, checks their sums and submits pieces that wait for room.
 */
#include <build-config.h>

#include "experts/expert_reader_private.h"

#ifdef HAVE_LIBURING

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

enum { MAX_BUFFERS = 1024, MAX_BUFFER = 1 << 30 }; /* the kernel's limits */

struct expert_uring {
	struct io_uring ring;
	size_t buffer_bytes; /* of each registered buffer; 0: no buffer is registered */
};

/* Queues a piece, from where it stopped if it has ended midway before. The lock is held. */
static void queue(struct expert_reader *r, struct expert_piece *p)
{
	struct expert_uring *u = r->uring;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring); /* never NULL: the ring has
							        * `depth` entries */
	uint8_t *to = p->x->to + p->at + p->n_done;
	unsigned n = (unsigned)(p->n - p->n_done);
	uint64_t at = p->x->at + p->at + p->n_done;
	if (u->buffer_bytes)
		io_uring_prep_read_fixed(sqe, 0, to, n, at,
					 (int)((size_t)(p->x->to - r->o.slots) /
					       u->buffer_bytes));
	else
		io_uring_prep_read(sqe, 0, to, n, at);
	io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
	io_uring_sqe_set_data(sqe, p);
}

void expert_uring_pump(struct expert_reader *r)
{
	int n = 0;
	for (struct expert_piece *p; (p = expert_reader_pop(r)); n++)
		queue(r, p);
	if (n)
		io_uring_submit(&r->uring->ring);
}

/* Takes the result of a piece: continues it, or ends it. */
static void expert_uring_take(struct expert_reader *r, struct expert_piece *p, int result)
{
	enum expert_read_state state = EXPERT_READ_GOOD;
	p->n_done += result > 0 ? (size_t)result : 0;
	if (result == 0 || p->n_done % EXPERT_READ_ALIGN) /* the file's end, or a read that stops
							   * just before it */
		state = EXPERT_READ_SHORT;
	if (result < 0 && result != -EINTR && result != -EAGAIN) {
		state = EXPERT_READ_ERROR;
		atomic_store(&p->x->error, -result);
	}
	bool goes_on = state == EXPERT_READ_GOOD && p->n_done < p->n;
	struct expert_piece ended = *p;
	pthread_mutex_lock(&r->lock);
	if (goes_on) {
		queue(r, p);
		io_uring_submit(&r->uring->ring);
	} else { /* give the disk its next piece before the sum of this one is computed */
		expert_reader_give_back(r, p);
		expert_uring_pump(r);
	}
	pthread_mutex_unlock(&r->lock);
	if (!goes_on)
		expert_reader_finish(r, &ended, state);
}

static void *uring_thread(void *arg)
{
	struct expert_reader *r = arg;
	for (;;) {
		struct io_uring_cqe *cqe;
		int e = io_uring_wait_cqe(&r->uring->ring, &cqe);
		if (e == -EINTR)
			continue;
		if (e < 0)
			return NULL;
		struct expert_piece *p = io_uring_cqe_get_data(cqe);
		int result = cqe->res;
		io_uring_cqe_seen(&r->uring->ring, cqe);
		if (!p) /* expert_uring_destroy asks the thread to end */
			return NULL;
		expert_uring_take(r, p, result);
	}
}

/* Registers the slots with the kernel, as buffers of whole slots. The kernel may refuse,
 * because locked memory has a limit. */
static void register_slots(struct expert_reader *r)
{
	struct iovec v[MAX_BUFFERS];
	const struct expert_reader_opts *o = &r->o;
	if (!o->slots || o->slot_bytes == 0 || o->slot_bytes > MAX_BUFFER)
		return;
	size_t size = MAX_BUFFER / o->slot_bytes * o->slot_bytes, n = 0;
	for (size_t at = 0; at < o->slots_bytes && n < MAX_BUFFERS; at += size, n++)
		v[n] = (struct iovec){o->slots + at, MIN(size, o->slots_bytes - at)};
	if (n * size >= o->slots_bytes &&
	    io_uring_register_buffers(&r->uring->ring, v, (unsigned)n) == 0)
		r->uring->buffer_bytes = size;
}

bool expert_uring_create(struct expert_reader *r)
{
	struct expert_uring *u = xcalloc(1, sizeof *u);
	if (io_uring_queue_init((unsigned)r->o.depth + 1, &u->ring, 0) != 0) {
		free(u);
		return false;
	}
	r->uring = u;
	bool good = io_uring_register_files(&u->ring, &r->o.fd, 1) == 0 &&
		    thread_start(&r->threads[0], "expert-read", uring_thread, r) == 0;
	if (!good) {
		io_uring_queue_exit(&u->ring);
		free(u);
		r->uring = NULL;
		return false;
	}
	r->n_threads = 1;
	register_slots(r);
	snprintf(r->note, sizeof r->note, "io_uring%s, %d reads of up to %zu KiB at a time",
		 u->buffer_bytes ? " with registered buffers" : "", r->o.depth,
		 r->o.piece >> 10);
	return true;
}

void expert_uring_destroy(struct expert_reader *r)
{
	struct expert_uring *u = r->uring;
	pthread_mutex_lock(&r->lock);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_flags(sqe, IOSQE_IO_DRAIN); /* completes after all reads */
	io_uring_sqe_set_data(sqe, NULL);
	io_uring_submit(&u->ring);
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	r->n_threads = 0;
	io_uring_queue_exit(&u->ring);
	free(u);
	r->uring = NULL;
}

#else

bool expert_uring_create(struct expert_reader *r)
{
	(void)r;
	return false;
}

void expert_uring_pump(struct expert_reader *r)
{
	(void)r;
}

void expert_uring_destroy(struct expert_reader *r)
{
	(void)r;
}

#endif
