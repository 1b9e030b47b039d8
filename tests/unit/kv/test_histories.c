/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/histories.h"

#include <stdlib.h>

#include "tests/tap.h"

enum { N = 3000 };

/* Tokens 0.. up to `same`, then others that depend on who. */
static void fill(int32_t *t, int same, int who)
{
	for (int i = 0; i < N; i++)
		t[i] = i < same ? i : 100000 * who + i;
}

static void test_bounds(void)
{
	struct histories *p = histories_create();
	struct history_match m;
	int32_t t[N];
	for (int who = 1; who <= HISTORIES_MAX + 1; who++) {
		fill(t, 0, who);
		histories_add(p, STR(""), t, N);
		fill(t, 0, 2);
		histories_find(p, STR(""), t, N, &m); /* the second is always in use */
	}
	fill(t, 0, 2);
	histories_find(p, STR(""), t, N, &m);
	is_int(m.n_alike, N, "what is in use stays");
	fill(t, 0, 1);
	histories_find(p, STR(""), t, N, &m);
	ok(!m.tokens, "what was used longest ago goes");
	int32_t *large = calloc(HISTORIES_MAX_TOKENS, sizeof *large);
	histories_add(p, STR(""), large, HISTORIES_MAX_TOKENS);
	histories_find(p, STR(""), large, HISTORIES_MAX_TOKENS, &m);
	is_int(m.n_alike, HISTORIES_MAX_TOKENS, "a history may take all of it");
	fill(t, 0, 2);
	histories_find(p, STR(""), t, N, &m);
	ok(!m.tokens, "and the others are gone");
	free(large);
	histories_destroy(p);
}

int main(void)
{
	struct histories *p = histories_create();
	struct history_match m;
	int32_t a[N], b[N], c[N];
	fill(a, 2500, 1);
	fill(b, 2500, 2);
	fill(c, 40, 3);
	histories_find(p, STR(""), a, N, &m);
	ok(m.n_alike == 0 && !m.tokens, "nothing is known at first");
	histories_add(p, STR(""), a, N);
	histories_add(p, STR(""), c, N);
	histories_find(p, STR(""), b, N, &m);
	ok(m.n_alike == 2500 && m.n == N && m.tokens[2500] == a[2500], "the most alike is found");
	histories_find(p, STR("key"), b, N, &m);
	ok(!m.tokens, "not from another space");
	histories_find(p, STR(""), b, 30, &m);
	is_int(m.n_alike, 30, "a shorter prompt is alike as a whole");
	histories_add(p, STR("key"), b, 1000);
	histories_add(p, STR("key"), b, 2900);
	histories_add(p, STR("key"), b, 500);
	histories_find(p, STR("key"), b, N, &m);
	ok(m.n_alike == 2900 && m.n == 2900, "a history grows, and does not shrink");
	histories_add(p, STR(""), a, 0);
	histories_destroy(p);
	test_bounds();
	return tap_done();
}
