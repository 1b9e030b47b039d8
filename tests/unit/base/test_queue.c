/* SPDX-License-Identifier: Apache-2.0 */
#include "base/queue.h"

#include <pthread.h>

#include "base/clock.h"
#include "tests/tap.h"

enum { N_ITEMS = 20000, N_WRITERS = 3 };
#define FOREVER_US INT64_C(3600000000)

static void test_order(void)
{
	int a, b, c;
	struct queue *q = queue_create(2);
	ok(!queue_pop(q), "a new queue is empty");
	ok(queue_push(q, &a) && queue_push(q, &b), "room for two");
	ok(!queue_push(q, &c), "no room for a third");
	is_int(queue_count(q), 2, "count");
	ok(queue_pop(q) == &a, "first in, first out");
	ok(queue_push(q, &c), "room again, across the end of the ring");
	ok(queue_pop(q) == &b && queue_pop(q) == &c && !queue_pop(q), "order");

	queue_wait(q, 0);
	ok(true, "a wait of nothing returns");
	queue_wake(q);
	queue_wait(q, FOREVER_US);
	ok(true, "a wake before the wait is not lost");
	queue_push(q, &a);
	queue_wait(q, FOREVER_US);
	is_int(queue_count(q), 1, "a wait with an item returns and does not pop");
	queue_destroy(q);
	queue_destroy(NULL);
}

static void *writer(void *arg)
{
	static char item[1];
	for (int i = 0; i < N_ITEMS; i++)
		while (!queue_push(arg, item))
			;
	return NULL;
}

/* Would hang, not fail, on a lost wake-up: the waits have no usable timeout. */
static void test_threads(void)
{
	struct queue *q = queue_create(64);
	pthread_t t[N_WRITERS];
	for (int i = 0; i < N_WRITERS; i++)
		pthread_create(&t[i], NULL, writer, q);
	int n = 0;
	while (n < N_WRITERS * N_ITEMS) {
		if (queue_pop(q))
			n++;
		else
			queue_wait(q, FOREVER_US);
	}
	for (int i = 0; i < N_WRITERS; i++)
		pthread_join(t[i], NULL);
	is_int(queue_count(q), 0, "every item of three writers came through once");
	queue_destroy(q);
}

static void test_timeout(void)
{
	struct queue *q = queue_create(1);
	int64_t start = clock_now_us(&clock_monotonic);
	queue_wait(q, 1500);
	ok(clock_now_us(&clock_monotonic) - start >= 1500, "a wait lasts its timeout");
	queue_destroy(q);
}

int main(void)
{
	test_order();
	test_threads();
	test_timeout();
	return tap_done();
}
