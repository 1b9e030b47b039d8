/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/expert_reader_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sum.h"

/* --- completion --------------------------------------------------------------------- */

/* Either the waiter sees the new state, or this sees that there is a waiter: all of these
 * operations have one order. */
void expert_reader_finish(struct expert_reader *r, struct expert_read *x,
			  enum expert_read_state state)
{
	if (state == EXPERT_READ_GOOD && sum_bytes(x->to, x->n) != x->sum)
		state = EXPERT_READ_SUM;
	if (!r->o.is_direct)
		posix_fadvise(r->o.fd, (off_t)x->at, (off_t)x->n, POSIX_FADV_DONTNEED);
	atomic_store(&x->state, state);
	atomic_fetch_add(&r->n_done, 1);
	if (atomic_load(&r->has_waiter))
		syscall(SYS_futex, &r->n_done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void expert_reader_wait(struct expert_reader *r, struct expert_read *x)
{
	if (expert_read_is_done(x))
		return;
	atomic_store(&r->has_waiter, true);
	for (;;) {
		uint32_t seen = atomic_load(&r->n_done);
		if (expert_read_is_done(x))
			break;
		syscall(SYS_futex, &r->n_done, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	atomic_store(&r->has_waiter, false);
}

const char *expert_read_fault(const struct expert_read *x)
{
	switch (atomic_load(&x->state)) {
	case EXPERT_READ_SHORT: return "short read: the file has become shorter";
	case EXPERT_READ_ERROR: return strerror(x->error);
	case EXPERT_READ_SUM: return "its bytes are not those that were stored";
	default: return "no fault";
	}
}

/* --- threads ------------------------------------------------------------------------ */

struct expert_read *expert_reader_pop(struct expert_reader *r)
{
	struct expert_read *x = r->first;
	if (!x)
		return NULL;
	r->first = x->next;
	if (!r->first)
		r->last = &r->first;
	return x;
}

static ssize_t plain_pread(void *ctx, int fd, void *to, size_t n, off_t at)
{
	(void)ctx;
	return pread(fd, to, n, at);
}

static enum expert_read_state read_all(const struct expert_reader *r, struct expert_read *x)
{
	while (x->n_done < x->n) {
		ssize_t got = r->o.pread(r->o.ctx, r->o.fd, x->to + x->n_done,
					 x->n - x->n_done, (off_t)(x->at + x->n_done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			x->error = errno;
			return EXPERT_READ_ERROR;
		}
		x->n_done += (size_t)got;
		if (got == 0 || x->n_done % EXPERT_READ_ALIGN) /* the end, or just before it */
			return EXPERT_READ_SHORT;
	}
	return EXPERT_READ_GOOD;
}

static void *read_thread(void *arg)
{
	struct expert_reader *r = arg;
	pthread_setname_np(pthread_self(), "expert-read");
	pthread_mutex_lock(&r->lock);
	for (;;) {
		struct expert_read *x = expert_reader_pop(r);
		if (!x && r->stops)
			break;
		if (!x) {
			pthread_cond_wait(&r->more, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		expert_reader_finish(r, x, read_all(r, x));
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void start_threads(struct expert_reader *r)
{
	sigset_t all, old; /* signals are the main thread's */
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* base/mapped.h */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (r->n_threads < r->o.depth &&
	       pthread_create(&r->threads[r->n_threads], NULL, read_thread, r) == 0)
		r->n_threads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	snprintf(r->note, sizeof r->note, "%d threads", r->n_threads);
}

/* --- both --------------------------------------------------------------------------- */

struct expert_reader *expert_reader_create(const struct expert_reader_opts *o)
{
	struct expert_reader *r = xcalloc(1, sizeof *r);
	r->o = *o;
	r->o.depth = MIN(MAX(o->depth ? o->depth : EXPERT_READ_DEPTH, 1),
			 EXPERT_READ_MAX_DEPTH);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->more, NULL);
	r->last = &r->first;
	if (!o->no_uring && !o->pread)
		r->uring = expert_uring_create(r);
	if (!o->pread)
		r->o.pread = plain_pread;
	if (!r->uring)
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
		x[i]->n_done = 0;
		x[i]->next = i + 1 < n ? x[i + 1] : NULL;
		atomic_store(&x[i]->state, EXPERT_READ_RUNS);
	}
	if (!r->uring && r->n_threads == 0) { /* no thread could be started */
		for (int i = 0; i < n; i++)
			expert_reader_finish(r, x[i], read_all(r, x[i]));
		return;
	}
	pthread_mutex_lock(&r->lock);
	*r->last = x[0];
	r->last = &x[n - 1]->next;
	if (r->uring)
		expert_uring_pump(r);
	else
		pthread_cond_broadcast(&r->more);
	pthread_mutex_unlock(&r->lock);
}
