/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring buffer under a mutex. The daemon's two queues carry at most a few thousand
 * pointers a second, so the mutex is hardly ever contended. A lock-free ring would gain
 * nothing and would be harder to prove right.
 */
#include "base/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t has_item;
	void **items;
	size_t capacity, head;
	_Atomic size_t n; /* written under the lock, read by anyone */
	bool is_woken;    /* queue_wake was called, and no queue_wait has returned for it yet */
};

struct queue *queue_create(size_t capacity)
{
	assert(capacity > 0);
	struct queue *q = xcalloc(1, sizeof *q);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->has_item, &attr);
	pthread_condattr_destroy(&attr);
	q->items = xcalloc(capacity, sizeof *q->items);
	q->capacity = capacity;
	return q;
}

void queue_destroy(struct queue *q)
{
	if (!q)
		return;
	pthread_cond_destroy(&q->has_item);
	pthread_mutex_destroy(&q->lock);
	free(q->items);
	free(q);
}

bool queue_push(struct queue *q, void *item)
{
	assert(item);
	pthread_mutex_lock(&q->lock);
	size_t n = q->n;
	bool has_room = n < q->capacity;
	if (has_room) {
		q->items[(q->head + n) % q->capacity] = item;
		q->n = n + 1;
		pthread_cond_signal(&q->has_item);
	}
	pthread_mutex_unlock(&q->lock);
	return has_room;
}

void *queue_pop(struct queue *q)
{
	void *item = NULL;
	pthread_mutex_lock(&q->lock);
	if (q->n > 0) {
		item = q->items[q->head];
		q->head = (q->head + 1) % q->capacity;
		q->n--;
	}
	pthread_mutex_unlock(&q->lock);
	return item;
}

static struct timespec deadline_in(int64_t timeout_us)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += timeout_us / 1000000;
	t.tv_nsec += timeout_us % 1000000 * 1000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

void queue_wait(struct queue *q, int64_t timeout_us)
{
	assert(timeout_us >= 0);
	struct timespec until = deadline_in(timeout_us);
	pthread_mutex_lock(&q->lock);
	int rc = 0;
	while (q->n == 0 && !q->is_woken && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&q->has_item, &q->lock, &until);
	q->is_woken = false;
	pthread_mutex_unlock(&q->lock);
}

void queue_wake(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->is_woken = true;
	pthread_cond_signal(&q->has_item);
	pthread_mutex_unlock(&q->lock);
}

size_t queue_count(const struct queue *q)
{
	return atomic_load_explicit(&q->n, memory_order_relaxed);
}
