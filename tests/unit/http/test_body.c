/* SPDX-License-Identifier: Apache-2.0 */
#include "http/body.h"

#include "tests/tap.h"

static size_t total;

static struct body make(size_t max_bytes)
{
	return (struct body){.max_bytes = max_bytes, .total = &total,
			     .max_total = 100};
}

static void test_keep(void)
{
	struct body b = make(10);
	is_int(body_add(&b, "hello", 5), OK, "a piece");
	is_int(body_add(&b, "world", 5), OK, "up to the limit");
	is_str(b.buf.p, "helloworld", "are put together");
	is_int(total, 0, "and free, since it is small");
	is_int(body_add(&b, "!", 1), E_TOO_LARGE, "one byte more");
	ok(b.is_discarded && b.buf.n == 0, "drops all of it");
	is_int(total, 0, "and counts it no longer");
	is_int(body_add(&b, "more", 4), OK, "the rest is read");
	is_int(b.n_read, 15, "and not kept");
	body_deinit(&b);
	body_deinit(&b);
	is_int(total, 0, "freeing twice counts once");
}

static void test_total(void)
{
	static char piece[BODY_SMALL + 1];
	size_t n = sizeof piece, cost = n * BODY_COST;
	struct body a = make(2 * n), b = make(2 * n), c = make(2 * n), d = make(2 * n);
	a.max_total = b.max_total = c.max_total = d.max_total = 2 * cost;
	is_int(body_add(&a, piece, n), OK, "one large body");
	is_int(total, cost, "is charged for what will be made of it");
	is_int(body_add(&b, piece, n - 1), OK, "a small one");
	is_int(total, cost, "is free");
	is_int(body_add(&b, piece, 1), OK, "until it is large");
	is_int(total, 2 * cost, "and then it is charged whole");
	is_int(body_expect(&c, n), E_BODIES, "a third is refused before it comes");
	is_int(body_add(&c, piece, n), E_BODIES, "or when it does");
	is_int(body_expect(&d, n - 1), OK, "small ones go on");
	body_deinit(&a);
	is_int(total, cost, "one is parsed");
	is_int(body_expect(&d, n), OK, "then there is room");
	is_int(body_add(&d, piece, n), OK, "and what was announced");
	is_int(total, 2 * cost, "is not charged again");
	body_deinit(&b);
	body_deinit(&c);
	body_deinit(&d);
	is_int(total, 0, "nothing is left");
	a.max_total = 10;
	is_int(body_add(&a, piece, n), OK, "one that is alone is always taken");
	is_int(body_add(&a, piece, n), OK, "all of it");
	body_deinit(&a);
	is_int(total, 0, "and nothing is left");
}

static void test_swallow(void)
{
	static char piece[1 << 20];
	struct body b = make(10);
	body_discard(&b);
	int n = 0;
	while (n < 1000 && body_add(&b, piece, sizeof piece) == OK)
		n++;
	is_int(n, BODY_SWALLOW_MAX / sizeof piece, "what is dropped is bounded");
	is_int(total, 0, "and not counted");
	body_deinit(&b);
}

int main(void)
{
	test_keep();
	test_total();
	test_swallow();
	return tap_done();
}
