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
	is_int(total, 10, "and counted");
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
	char piece[60];
	struct body a = make(80), b = make(80);
	memset(piece, 'x', sizeof piece);
	is_int(body_add(&a, piece, 60), OK, "one large body");
	is_int(body_add(&b, piece, 60), E_QUEUE_FULL, "two are too much at once");
	is_int(total, 60, "the first stays");
	body_deinit(&a);
	struct body c = make(80);
	is_int(body_add(&c, piece, 60), OK, "when it is gone there is room");
	body_deinit(&b);
	body_deinit(&c);
	is_int(total, 0, "nothing is left");
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
