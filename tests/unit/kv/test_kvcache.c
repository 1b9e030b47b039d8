/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/kvcache.h"

#include "tests/tap.h"

static const int32_t AB[] = {1, 2}, CD[] = {3, 4}, EF[] = {5, 6};

static struct kvcache *make(int n_pages, bool keep)
{
	struct kvcache *kv = NULL;
	if (kvcache_create(n_pages, 2, keep, &kv) != OK)
		abort();
	return kv;
}

static int32_t take_with(struct kvcache *kv, const int32_t *tokens)
{
	int32_t page = kvcache_alloc_page(kv);
	memcpy(kvcache_tokens(kv, page), tokens, 2 * sizeof *tokens);
	return page;
}

static void test_take_release(void)
{
	struct kvcache *kv = make(3, false);
	is_int(kvcache_available(kv), 3, "all pages are free at first");
	int32_t a = kvcache_alloc_page(kv), b = kvcache_alloc_page(kv), c = kvcache_alloc_page(kv);
	ok(a != b && b != c && a != c, "pages are distinct");
	is_int(kvcache_available(kv), 0, "none is left");
	ok(kvcache_is_private(kv, a), "a taken page is private");
	kvcache_hold(kv, a);
	ok(!kvcache_is_private(kv, a), "a page held twice is not");
	kvcache_release(kv, a);
	is_int(kvcache_available(kv), 0, "still held once");
	kvcache_release(kv, a);
	is_int(kvcache_available(kv), 1, "free after the last release");
	is_int(kvcache_alloc_page(kv), a, "and can be taken again");
	memcpy(kvcache_tokens(kv, b), AB, sizeof AB);
	kvcache_prefix p;
	is_int(kvcache_publish(kv, b, KVCACHE_ROOT), KVCACHE_ROOT,
	       "without keep nothing is published");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &p), -1, "nor found");
	kvcache_destroy(kv);
	kvcache_destroy(NULL);
}

static void test_prefix_chain(void)
{
	struct kvcache *kv = make(8, true);
	kvcache_prefix p, q, found;
	int32_t a = take_with(kv, AB), b = take_with(kv, CD);
	p = kvcache_publish(kv, a, KVCACHE_ROOT);
	q = kvcache_publish(kv, b, p);
	ok(p != KVCACHE_ROOT && q != p, "each prefix has its own name");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &found), a, "first page is found");
	ok(found == p, "under its name");
	is_int(kvcache_find(kv, p, CD, &found), b, "second page is found after it");
	is_int(kvcache_find(kv, KVCACHE_ROOT, CD, &found), -1,
	       "but not at the start: the tokens before it differ");
	is_int(kvcache_find(kv, p, EF, &found), -1, "other tokens are not found");
	ok(!kvcache_is_private(kv, a), "a published page is not to be written");

	int32_t twin = take_with(kv, AB);
	ok(kvcache_publish(kv, twin, KVCACHE_ROOT) == p,
	   "the same tokens again get the same name");
	int available = kvcache_available(kv);
	kvcache_release(kv, twin);
	is_int(kvcache_available(kv), available + 1, "the twin is simply free");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &found), a, "the first one serves");
	kvcache_destroy(kv);
}

static void test_kept_pages(void)
{
	struct kvcache *kv = make(3, true);
	kvcache_prefix p, found;
	int32_t a = take_with(kv, AB), b = take_with(kv, CD);
	p = kvcache_publish(kv, a, KVCACHE_ROOT);
	kvcache_publish(kv, b, p);
	kvcache_release(kv, b);
	kvcache_release(kv, a);
	is_int(kvcache_available(kv), 3, "kept pages can be had");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &found), a, "and are found");
	kvcache_hold(kv, a);
	is_int(kvcache_available(kv), 2, "a held one cannot be had");
	kvcache_release(kv, a);

	int32_t c = kvcache_alloc_page(kv);
	ok(c != a && c != b, "free pages go before kept ones");
	int32_t d = kvcache_alloc_page(kv);
	is_int(d, b, "then the least recently used");
	is_int(kvcache_find(kv, p, CD, &found), -1, "which is found no more");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &found), a, "the other still is");
	int32_t e = take_with(kv, AB);
	is_int(e, a, "the last one goes too");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &found), -1, "now nothing is found");
	ok(kvcache_publish(kv, e, KVCACHE_ROOT) != p,
	   "a name is never used again, so orphans stay unreachable");
	kvcache_destroy(kv);
}

/* A lookup tries the page beside the last one first. */
static void test_neighbours(void)
{
	struct kvcache *kv = make(4, true);
	int32_t a = take_with(kv, AB), b = take_with(kv, CD), c = take_with(kv, EF);
	kvcache_prefix p = kvcache_publish(kv, a, KVCACHE_ROOT), found = KVCACHE_ROOT;
	kvcache_prefix q = kvcache_publish(kv, b, p);
	kvcache_prefix r = kvcache_publish(kv, c, q);
	ok(b - a == c - b && abs(b - a) == 1, "pages are taken in a row");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &found), a, "the first");
	is_int(kvcache_find(kv, p, CD, &found), b, "the second");
	is_int(kvcache_find(kv, q, AB, &found), -1, "other tokens than the neighbour has");
	is_int(kvcache_find(kv, q, EF, &found), c, "the third");
	ok(found == r, "under its name");
	kvcache_release(kv, c);
	kvcache_alloc_page(kv);
	is_int(kvcache_alloc_page(kv), c, "the third is taken again");
	kvcache_find(kv, KVCACHE_ROOT, AB, &found);
	is_int(kvcache_find(kv, p, CD, &found), b, "the second is there");
	is_int(kvcache_find(kv, q, EF, &found), -1,
	       "its neighbour is not, though its tokens still are");
	kvcache_destroy(kv);
}

/* All pages in few buckets: every lookup meets foreign pages and must pass them. */
static void test_collisions(void)
{
	enum { N = 500 };
	struct kvcache *kv = make(N, true);
	kvcache_prefix names[N], found;
	int32_t pages[N];
	for (int i = 0; i < N; i++) {
		int32_t tokens[2] = {i % 10, i / 10};
		pages[i] = take_with(kv, tokens);
		names[i] = kvcache_publish(kv, pages[i], KVCACHE_ROOT);
	}
	int right = 0;
	for (int i = 0; i < N; i++) {
		int32_t tokens[2] = {i % 10, i / 10};
		right += kvcache_find(kv, KVCACHE_ROOT, tokens, &found) == pages[i] &&
			 found == names[i];
	}
	is_int(right, N, "each of %d pages is found by its own tokens", N);
	/* Drop every third and see that the rest stays reachable. */
	for (int i = 0; i < N; i += 3)
		kvcache_release(kv, pages[i]);
	for (int n = kvcache_available(kv); n > 0; n--)
		kvcache_alloc_page(kv);
	right = 0;
	for (int i = 0; i < N; i++) {
		int32_t tokens[2] = {i % 10, i / 10};
		int32_t page = kvcache_find(kv, KVCACHE_ROOT, tokens, &found);
		right += page == (i % 3 == 0 ? -1 : pages[i]);
	}
	is_int(right, N, "evicted pages are gone, the others are not");
	kvcache_destroy(kv);
}

/* One page of tokens over and over: only the prefix tells the pages apart. */
static void test_repetition(void)
{
	enum { N = 300 };
	struct kvcache *kv = make(N, true);
	kvcache_prefix names[N + 1] = {KVCACHE_ROOT}, found;
	int32_t pages[N];
	for (int i = 0; i < N; i++) {
		pages[i] = take_with(kv, AB);
		names[i + 1] = kvcache_publish(kv, pages[i], names[i]);
	}
	int right = 0;
	for (int i = 0; i < N; i++)
		right += kvcache_find(kv, names[i], AB, &found) == pages[i] &&
			 found == names[i + 1];
	is_int(right, N, "each repetition is found after the one before it");
	is_int(kvcache_find(kv, names[N], AB, &found), -1, "and none after the last");
	kvcache_destroy(kv);
}

int main(void)
{
	test_take_release();
	test_prefix_chain();
	test_kept_pages();
	test_neighbours();
	test_collisions();
	test_repetition();
	return tap_done();
}
