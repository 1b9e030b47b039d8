/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lru.h"

#include <stdlib.h>

#include "base/alloc.h"
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
	return lru_create(&(struct lru_opts){max_entries, max_bytes, keeps_order, size, drop});
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

int main(void)
{
	test_use();
	test_order();
	test_bytes();
	test_owners();
	return tap_done();
}
