/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/spaces.h"

#include <stdio.h>

#include "tests/tap.h"

static const int32_t AB[] = {1, 2};

static void test_pages(struct kvcache *kv, struct spaces *s)
{
	kvcache_prefix a = spaces_root(s, STR("a")), b = spaces_root(s, STR("b")), after;
	int32_t page = kvcache_alloc_page(kv), other = kvcache_alloc_page(kv);
	memcpy(kvcache_tokens(kv, page), AB, sizeof AB);
	memcpy(kvcache_tokens(kv, other), AB, sizeof AB);
	ok(kvcache_publish(kv, page, a) != KVCACHE_ROOT, "a page is published in a space");
	is_int(kvcache_find(kv, a, AB, &after), page, "and found there");
	is_int(kvcache_find(kv, b, AB, &after), -1, "not in another space");
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &after), -1, "not in everybody's");
	kvcache_publish(kv, other, KVCACHE_ROOT);
	is_int(kvcache_find(kv, KVCACHE_ROOT, AB, &after), other, "which has its own copy");
	is_int(kvcache_find(kv, a, AB, &after), page, "as the space keeps its own");
	kvcache_release(kv, page);
	kvcache_release(kv, other);
}

static void test_names(struct spaces *s)
{
	kvcache_prefix a = spaces_root(s, STR("a")), ab = spaces_root(s, STR("ab"));
	ok(spaces_root(s, STR("")) == KVCACHE_ROOT, "no name is everybody's space");
	ok(a != KVCACHE_ROOT && ab != KVCACHE_ROOT && a != ab, "a name has its own");
	ok(spaces_root(s, STR("a")) == a && spaces_root(s, STR("ab")) == ab,
	   "which stays the same");
	ok(spaces_root(s, (struct str){"a\0", 2}) != a, "names are compared whole");
}

static void test_bound(struct spaces *s)
{
	kvcache_prefix a = spaces_root(s, STR("a")), b = spaces_root(s, STR("b"));
	for (int i = 0; i < 2 * SPACES_MAX; i++) {
		char name[16];
		snprintf(name, sizeof name, "s%d", i);
		spaces_root(s, str_of(name));
		spaces_root(s, STR("a"));
	}
	ok(spaces_root(s, STR("a")) == a, "a space in use stays in a full table");
	ok(spaces_root(s, STR("b")) > b, "one that gave way gets a root nobody had");
}

int main(void)
{
	struct kvcache *kv = NULL;
	if (kvcache_create(4, 2, true, &kv) != OK)
		abort();
	struct spaces *s = spaces_create(kv);
	test_pages(kv, s);
	test_names(s);
	test_bound(s);
	spaces_destroy(s);
	spaces_destroy(NULL);
	kvcache_destroy(kv);
	return tap_done();
}
