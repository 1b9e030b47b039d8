/* SPDX-License-Identifier: Apache-2.0
 *
 * The budget of a request, and what becomes of its memory when the system refuses some: a request
 * loses what it asked for and is over, and whoever works for none does not fail.
 */
#include "base/work.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/lru.h"
#include "base/marked.h"
#include "tests/tap.h"

#define TOO_LARGE ((size_t)1 << 46) /* this system gives less than that */

void *__real_realloc(void *p, size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_realloc(void *p, size_t n)
{
	return n >= TOO_LARGE ? NULL : __real_realloc(p, n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return size >= TOO_LARGE ? NULL : __real_calloc(n, size);
}

static void test_budget(void)
{
	struct work_budget w;
	struct fail fail = {.code = E_LIMIT, .param = "tools[3]"};
	ok(work_spend(WORK_REGEX, 1 << 30) && !work_is_over() && work_left() == SIZE_MAX,
	   "without a budget nothing is bounded");
	work_begin(&w, 100);
	w.own[WORK_IMAGE] = 50;
	ok(work_spend(WORK_IMAGE, 60) && work_left() == 90, "a part's own units go first");
	ok(work_spend(WORK_TEXT, 90) && !work_fail(&w, &fail), "all may be spent");
	ok(!work_spend(WORK_REGEX, 1) && work_is_over() && work_left() == 0, "and no more");
	work_end();
	ok(work_fail(&w, &fail) && fail.code == E_LIMIT && strstr(fail.text, "into words") &&
	   strcmp(fail.param, "tools[3]") == 0, "the fault names what took most: %s", fail.text);
	work_begin(&w, 10);
	ok(!work_is_over(), "the next request has a budget of its own");
	work_end();
}

static size_t size_of(void *value)
{
	return 1;
}

static void test_lost(void)
{
	struct work_budget w;
	struct fail fail = {0};
	struct buf b = {0};
	struct marked m = {0};
	struct arena a;
	arena_init(&a);
	work_begin(&w, 100);
	buf_add_z(&b, "so far");
	ok(!buf_reserve(&b, TOO_LARGE) && w.has_no_memory, "a buffer that cannot grow says so");
	buf_add(&b, "", 0);
	buf_add_json(&b, (struct str){"x", TOO_LARGE});
	is_str(b.p, "so far", "and stays as it was");
	ok(!work_spend(WORK_TEXT, 0) && work_fail(&w, &fail) && fail.code == E_NOMEM &&
	   status_http(fail.code) == 503, "its request is over, with 503: %s", fail.text);
	work_begin(&w, 100);
	ok(!arena_try(&a, TOO_LARGE) && w.has_no_memory, "nor does an arena");
	struct str s = arena_str(&a, (struct str){"x", TOO_LARGE});
	ok(s.p && s.n == 0, "a copy that has no room is empty");
	ok(arena_alloc(&a, 100), "small pieces go on");
	work_begin(&w, 100);
	marked_add(&m, STR("told"), TRUST_USER);
	marked_add(&m, (struct str){"x", TOO_LARGE}, TRUST_TEMPLATE);
	ok(m.n_marks == 1 && m.text.n == 4 && w.has_no_memory, "marks stay true to their text");
	work_begin(&w, 100);
	ok(!buf_try(&b, TOO_LARGE) && w.has_no_memory, "a caller may handle it");
	work_end();
	ok(!buf_try(&b, TOO_LARGE) && !alloc_try(NULL, TOO_LARGE), "also without a request");
	struct lru *l = lru_create(&(struct lru_opts){.max_entries = 1, .max_bytes = SIZE_MAX / 2,
						      .size = size_of, .drop = free});
	lru_put(l, (struct lru_key){.name = {"x", TOO_LARGE}}, xmalloc(1));
	ok(true, "what cannot be kept is dropped");
	lru_destroy(l);
	marked_deinit(&m);
	buf_deinit(&b);
	arena_deinit(&a);
}

/* Runs fn in a child that may take `more` bytes of address space. Returns its exit status. */
static int run_tight(size_t more, int (*fn)(void))
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		size_t n_pages = 0;
		FILE *f = fopen("/proc/self/statm", "r");
		if (!f || fscanf(f, "%zu", &n_pages) != 1)
			_exit(99);
		fclose(f);
		size_t most = n_pages * (size_t)sysconf(_SC_PAGESIZE) + more;
		alloc_keep_spare(4 << 20);
		setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
		_exit(fn());
	}
	int status;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int take(size_t n)
{
	memset(xmalloc(n), 1, n);
	return 0;
}

static int use_spare(void)
{
	struct work_budget w;
	work_begin(&w, 100);
	take(3 << 20);
	return w.has_no_memory && w.is_over ? 7 : 8;
}

static int use_spare_alone(void) { return take(3 << 20); }
static int use_more(void) { return take(64 << 20); }

static int use_twice(void)
{
	void *p = xmalloc(3 << 20);
	free(p);
	alloc_keep_spare(2 << 20);
	p = xmalloc(3 << 20);
	return p ? 9 : 0;
}

static void test_spare(void)
{
	if (TAP_IS_SANITIZED)
		return;
	is_int(run_tight(4 << 20, use_spare_alone), 0, "the process lives from its spare");
	is_int(run_tight(4 << 20, use_spare), 7, "which ends the thread's request");
	is_int(run_tight(4 << 20, use_more), 1, "without a spare it ends with a status");
	is_int(run_tight(4 << 20, use_twice), 9, "a spare is kept anew");
}

int main(void)
{
	test_budget();
	test_lost();
	test_spare();
	return tap_done();
}
