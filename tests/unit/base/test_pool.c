/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/tap.h"

enum { MAX_N = 5000 };
static int hits[MAX_N];          /* plain: a piece belongs to one thread */
static _Atomic int n_calls, smallest;

static void count_hits(void *arg, int begin, int end)
{
	(void)arg;
	for (int i = begin; i < end; i++)
		hits[i]++;
	atomic_fetch_add(&n_calls, 1);
	int n = end - begin, was = atomic_load(&smallest);
	while (n < was && !atomic_compare_exchange_weak(&smallest, &was, n))
		;
}

/* True when [0, n) was covered once and nothing beyond. */
static bool covers(struct pool *p, int n, int grain)
{
	memset(hits, 0, sizeof hits);
	atomic_store(&n_calls, 0);
	atomic_store(&smallest, MAX_N);
	pool_for(p, n, grain, count_hits, NULL);
	for (int i = 0; i < MAX_N; i++)
		if (hits[i] != (i < n))
			return false;
	return true;
}

static void test_cover(struct pool *p, const char *what)
{
	static const int sizes[] = {1, 2, 3, 7, 64, 65, 999, MAX_N};
	bool all = true;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int grain = 0; grain < 70; grain += 23)
			all &= covers(p, sizes[i], grain);
	ok(all, "every index once, %s", what);
	ok(covers(p, 0, 1) && atomic_load(&n_calls) == 0, "nothing for n = 0, %s", what);
	covers(p, 1024, 256);
	ok(atomic_load(&smallest) >= 256, "no piece is below the grain, %s", what);
}

/* True once every thread but this one sleeps. Gives up, without a clock, after
 * more looks than any spin lasts. */
static bool all_others_sleep(void)
{
	for (int look = 0; look < 20000; look++) {
		bool all = true;
		DIR *d = opendir("/proc/self/task");
		for (struct dirent *e; d && (e = readdir(d));) {
			char path[300], state = 'S';
			snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
			int tid = atoi(e->d_name); /* 0: "." and ".." */
			FILE *f = tid == 0 || tid == gettid() ? NULL : fopen(path, "r");
			if (f && fscanf(f, "%*[^)]) %c", &state) == 1 && state != 'S')
				all = false;
			if (f)
				fclose(f);
		}
		closedir(d);
		if (all)
			return true;
		sched_yield();
	}
	return false;
}

/* Short jobs back to back, and now and then only after the workers went to sleep: a
 * late worker that touched the next job would break a sum. */
static void test_many(struct pool *p)
{
	bool all = true;
	for (int i = 0; i < 3000; i++) {
		all &= covers(p, 2 + i % 300, 1);
		if (i % 500 == 0)
			all &= all_others_sleep();
	}
	ok(all, "3000 jobs in a row; idle threads sleep");
}

static void speed(struct pool *p)
{
	int64_t start = clock_now_us(&clock_monotonic);
	for (int i = 0; i < 20000; i++)
		pool_for(p, 64, 8, count_hits, NULL);
	printf("# %.2f us per pool_for with %d threads\n",
	       (double)(clock_now_us(&clock_monotonic) - start) / 20000,
	       pool_threads(p));
}

static int cpus_of_mine(cpu_set_t *out)
{
	CPU_ZERO(out);
	return sched_getaffinity(0, sizeof *out, out) == 0 ? CPU_COUNT(out) : 0;
}

static _Atomic int n_runs_at[CPU_SETSIZE], n_unpinned;

static void where_am_i(void *arg, int begin, int end)
{
	(void)arg;
	cpu_set_t mine;
	if (cpus_of_mine(&mine) != 1)
		n_unpinned++;
	for (int i = 0; i < CPU_SETSIZE; i++)
		n_runs_at[i] += CPU_ISSET(i, &mine) ? end - begin : 0;
	usleep(1000); /* the others get some, too */
}

static int cpus_used(void)
{
	int n = 0;
	for (int i = 0; i < CPU_SETSIZE; i++)
		n += n_runs_at[i] > 0;
	return n;
}

/* A pool of as many threads as CPUs, then all is as it was. */
static void test_pin(void)
{
	cpu_set_t before, now;
	int n_cpus = cpus_of_mine(&before);
	struct pool *p = pool_create(0);
	pool_pin(NULL);
	pool_pin(p);
	is_int(cpus_of_mine(&now), n_cpus, "pool_pin leaves the caller alone");
	pool_pin_caller(NULL);
	pool_pin_caller(p);
	is_int(cpus_of_mine(&now), 1, "pool_pin_caller does not");
	/* A worker that is kept out of its CPU misses a loop. */
	for (int i = 0; i < 1000 && cpus_used() < pool_threads(p); i++)
		pool_for(p, 16 * n_cpus, 1, where_am_i, NULL);
	is_int(cpus_used(), pool_threads(p), "the threads have a CPU each");
	is_int(n_unpinned, 0, "and stay there");
	pool_unpin_caller(NULL);
	pool_unpin_caller(p);
	is_int(cpus_of_mine(&now), n_cpus, "pool_unpin_caller gives the others back");
	pool_pin_caller(p);
	pool_destroy(p);
	p = pool_create(3); /* the caller has one CPU, so the workers have */
	pool_pin(p);
	test_cover(p, "more threads than CPUs, pinned");
	pool_destroy(p);
	sched_setaffinity(0, sizeof before, &before);
}

int main(void)
{
	test_pin();
	test_cover(NULL, "no pool");
	for (int n = 1; n <= 5; n += 2) {
		char what[32];
		struct pool *p = pool_create(n);
		is_int(pool_threads(p), n, "threads");
		snprintf(what, sizeof what, "%d threads", n);
		test_cover(p, what);
		test_many(p);
		pool_destroy(p);
	}
	struct pool *p = pool_create(0);
	ok(pool_threads(p) >= 1, "as many threads as CPUs");
	test_cover(p, "default threads");
	test_many(p);
	speed(p);
	pool_destroy(p);
	pool_destroy(NULL);
	return tap_done();
}
