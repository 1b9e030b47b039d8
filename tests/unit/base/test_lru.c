/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lru.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/work.h"
#include "tests/tap.h"

struct value {
	size_t size;
	int number;
};

static int n_dropped;

static size_t size(void *v) { return ((struct value *)v)->size; }

static void drop(void *v)
{
	n_dropped++;
	free(v);
}

static struct lru *make(int max_entries, size_t max_bytes, bool keeps_order)
{
	n_dropped = 0;
	const struct lru_opts o = {max_entries, max_bytes, keeps_order, true, size, drop};
	return lru_create(&o);
}

static struct value *put(struct lru *l, uint64_t owner, const char *key, size_t n, int number)
{
	struct value *v = xcalloc(1, sizeof *v);
	*v = (struct value){n, number};
	lru_put(l, (struct lru_key){owner, str_of(key)}, v);
	return v;
}

static void take(void *v, void *ctx) { *(int *)ctx = ((struct value *)v)->number; }

/* The number under the key, or -1. */
static int get(struct lru *l, uint64_t owner, const char *key)
{
	int number = -1;
	bool found = lru_get(l, (struct lru_key){owner, str_of(key)}, take, &number);
	return found ? number : -1;
}

static void test_use(void)
{
	struct lru *l = make(2, 100, false);
	put(l, 0, "a", 1, 1);
	put(l, 0, "b", 1, 2);
	is_int(get(l, 0, "a"), 1, "found");
	put(l, 0, "c", 1, 3);
	is_int(get(l, 0, "b"), -1, "the least recently used one gave way");
	is_int(get(l, 0, "a"), 1, "the one that was used did not");
	put(l, 0, "a", 1, 4);
	is_int(get(l, 0, "a"), 4, "a second value of a key stands for the first");
	is_int(n_dropped, 2, "what left was dropped");
	ok(lru_delete(l, (struct lru_key){0, STR("a")}), "deleted");
	ok(!lru_delete(l, (struct lru_key){0, STR("a")}), "once");
	is_int(get(l, 0, "c"), 3, "another stays");
	put(l, 0, "", 1, 5);
	is_int(get(l, 0, ""), 5, "an empty key is a key");
	lru_destroy(l);
	is_int(n_dropped, 5, "the end drops all");
	lru_destroy(NULL);
}

static void test_order(void)
{
	struct lru *l = make(2, 100, true);
	put(l, 0, "a", 1, 1);
	put(l, 0, "b", 1, 2);
	is_int(get(l, 0, "a"), 1, "a use");
	put(l, 0, "c", 1, 3);
	is_int(get(l, 0, "a"), -1, "does not make younger where order is kept");
	lru_destroy(l);
}

static void test_bytes(void)
{
	struct lru *l = make(10, 20, false);
	put(l, 0, "huge", 17, 1);
	is_int(get(l, 0, "huge"), -1, "what is alone too large is not kept");
	is_int(n_dropped, 1, "but dropped");
	struct value *grows = put(l, 0, "a", 9, 2);
	put(l, 0, "b", 9, 3);
	is_int(get(l, 0, "a"), 2, "just as many bytes as fit");
	is_int(get(l, 0, "b"), 3, "both");
	grows->size = 15;
	put(l, 0, "c", 1, 4);
	is_int(get(l, 0, "a"), -1, "one that has grown is counted as it is now");
	is_int(get(l, 0, "b"), 3, "the others have room");
	lru_destroy(l);
	l = make(0, 20, false);
	put(l, 0, "a", 1, 1);
	is_int(get(l, 0, "a"), -1, "a store of no entries keeps none");
	lru_destroy(l);
}

static void test_owners(void)
{
	struct lru *l = make(3, 100, false);
	put(l, 1, "a", 1, 1);
	is_int(get(l, 2, "a"), -1, "another owner does not find it");
	ok(!lru_delete(l, (struct lru_key){2, STR("a")}), "nor deletes it");
	for (int i = 0; i < 9; i++)
		put(l, 2, i % 2 ? "x" : i % 4 ? "y" : "z", 1, i);
	is_int(get(l, 1, "a"), 1, "one who holds much drives out its own");
	put(l, 1, "b", 60, 2);
	put(l, 2, "w", 50, 3);
	is_int(get(l, 1, "b"), -1, "of bytes, who holds most of them gives way");
	is_int(get(l, 2, "w"), 3, "not the other");
	lru_destroy(l);
}

/* More keys than the index begins with buckets for, so that some share one and all move. Beside
 * it the same by arrays: what a key has, and when it was used last. */
static void test_index(void)
{
	enum { KEYS = 400, ROOM = 300, TURNS = 20000 };
	int number[KEYS] = {0}, used[KEYS] = {0}, n = 0, n_wrong = 0; /* number 0: not there */
	struct lru *l = make(ROOM, 1 << 20, false);
	uint32_t x = 1;
	for (int turn = 1; turn <= TURNS; turn++) {
		char key[16];
		x = x * 1664525u + 1013904223u;
		int k = (int)((x >> 8) % KEYS), what = (int)((x >> 24) % 8);
		snprintf(key, sizeof key, "%d", k);
		if (what == 0) {
			n_wrong += lru_delete(l, (struct lru_key){0, str_of(key)}) != !!number[k];
			n -= !!number[k];
			number[k] = 0;
		} else if (what < 4) {
			put(l, 0, key, 1, turn);
			n += !number[k];
			number[k] = turn;
			used[k] = turn;
		} else {
			n_wrong += get(l, 0, key) != (number[k] ? number[k] : -1);
			used[k] = turn;
		}
		int oldest = -1;
		for (int i = 0; n > ROOM && i < KEYS; i++)
			if (number[i] && (oldest < 0 || used[i] < used[oldest]))
				oldest = i;
		if (oldest >= 0)
			number[oldest] = 0;
		n -= oldest >= 0;
	}
	is_int(n_wrong, 0, "%d turns with %d keys are as those of a list", TURNS, KEYS);
	for (int i = 0; i < KEYS; i++)
		n -= !!number[i];
	is_int(n, 0, "which has counted right");
	lru_destroy(l);
}

/* What a request makes after its memory was refused is not whole: no other request may find it. */
static void test_over(void)
{
	struct lru *l = make(2, 100, false);
	struct work_budget work;
	work_begin(&work, 10);
	put(l, 0, "a", 1, 1);
	ok(work_lose_memory(), "a request loses its memory");
	put(l, 0, "a", 1, 2);
	put(l, 0, "b", 1, 3);
	work_end();
	is_int(n_dropped, 2, "what it makes then is dropped");
	is_int(get(l, 0, "a"), 1, "what stood there before stays");
	is_int(get(l, 0, "b"), -1, "nothing is added");
	put(l, 0, "b", 1, 4);
	is_int(get(l, 0, "b"), 4, "the next request may add");
	lru_destroy(l);
}

int main(void)
{
	test_use();
	test_order();
	test_bytes();
	test_owners();
	test_index();
	test_over();
	return tap_done();
}
