/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/miss.h"

#include "tests/tap.h"

static void check(struct miss_facts f, enum miss_reason want, int at, const char *what)
{
	f.page_size = 16;
	struct miss m = miss_of(&f);
	is_str(miss_name(m.reason), miss_name(want), "%s", what);
	is_int(m.at, at, "  at that token");
}

int main(void)
{
	struct miss_facts f = {.n_prompt = 1000};
	check(f, MISS_OFF, 0, "without a prefix cache nothing is found");
	f.keeps = true;
	check(f, MISS_NEW, 0, "the first prompt of all");
	f.n_alike = 15, f.n_history = 400;
	check(f, MISS_NEW, 15, "a template's first words in common are no conversation");
	f.n_alike = 400, f.n_cached = f.n_pages = 400;
	check(f, MISS_NEW, 400, "the next turn of a history");
	f.n_alike = 401, f.n_history = 401;
	check(f, MISS_NEW, 401, "which may end within a page");
	f.n_history = 900;
	check(f, MISS_DIFFERS, 401, "a history went on otherwise");
	f.n_cached = f.n_pages = 384;
	check(f, MISS_EVICTED, 384, "a page of what is in common is missing");
	f.n_pages = 400;
	check(f, MISS_NO_STATE, 384, "it is there, and no state with it");
	f = (struct miss_facts){.n_prompt = 1000, .n_cached = 992, .n_pages = 992,
				.n_alike = 1000, .n_history = 1020, .keeps = true};
	check(f, MISS_NONE, 1000, "the same prompt again: its last token runs, no more");
	f.n_cached = f.n_pages = 0;
	check(f, MISS_EVICTED, 0, "or nothing of it is left");
	f.n_foreign = 1000;
	check(f, MISS_EVICTED, 0, "whatever another model has of it");
	f.n_alike = 3;
	check(f, MISS_OTHER_MODEL, 0, "what only another model has");
	f.n_alike = 500, f.n_cached = f.n_pages = 496, f.n_foreign = 496;
	check(f, MISS_DIFFERS, 500, "another model that knows no more is no reason");
	f = (struct miss_facts){.n_prompt = 16, .keeps = true};
	check(f, MISS_NONE, 16, "a prompt of one page: nothing can be found of it");
	f = (struct miss_facts){.n_prompt = 100, .n_cached = 48, .n_pages = 48, .keeps = true};
	check(f, MISS_NEW, 48, "a cache that remembers more than the histories");
	return tap_done();
}
