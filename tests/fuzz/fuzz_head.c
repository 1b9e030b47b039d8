/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request; the first says how they are cut. What is understood must not
 * depend on the cuts. A head that is taken is taken again as it was written anew, and
 * then says the same: libmicrohttpd and this reader mean one thing by it. A body in
 * chunks that is taken has no more bytes than came.
 */
#include <stdlib.h>

#include "http/chunked.h"
#include "http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct verdict {
	enum status status; /* E_TIMEOUT: more must come */
	size_t n;           /* of the head */
	struct head head;
	struct buf clean;
};

static struct verdict read_head(struct str text, size_t step)
{
	struct verdict v = {.status = E_TIMEOUT};
	struct fail fail = {0};
	size_t scanned = 0;
	ptrdiff_t n = 0;
	for (size_t seen = 0; n == 0 && seen < text.n;) {
		seen = text.n - seen < step ? text.n : seen + step;
		n = head_scan((struct str){text.p, seen}, &scanned, &fail);
	}
	v.n = n > 0 ? (size_t)n : 0;
	if (n < 0)
		v.status = fail.code;
	else if (n > 0)
		v.status = head_parse((struct str){text.p, v.n}, &v.head, &v.clean, &fail);
	if (n != 0 && v.status != OK && !fail.text[0])
		abort();
	return v;
}

static void check_again(const struct verdict *v)
{
	struct verdict again = read_head(buf_str(&v->clean), v->clean.n);
	/* A length becomes chunks, where there are any. */
	struct str path = v->head.target; /* libmicrohttpd gets no query */
	const char *query = path.n ? memchr(path.p, '?', path.n) : NULL;
	path.n = query ? (size_t)(query - path.p) : path.n;
	int64_t length = v->head.minor && v->head.length ? -1 : v->head.length;
	if (again.status == E_HEAD_LONG) { /* by a header of ours */
		buf_deinit(&again.clean);
		return;
	}
	if (again.status != OK || again.n != v->clean.n || again.head.length != length ||
	    strcmp(again.head.method, v->head.method) != 0 ||
	    !str_eq(again.head.target, path) ||
	    again.head.is_close != v->head.is_close ||
	    (v->head.minor && !str_eq(buf_str(&again.clean), buf_str(&v->clean))))
		abort();
	buf_deinit(&again.clean);
}

static enum chunked_at read_chunks(struct str text, size_t step, struct buf *out)
{
	struct chunked c = {0};
	struct fail fail;
	size_t from = 0;
	for (size_t to = 0; to < text.n && c.at < CHUNKED_END;) {
		to = text.n - to < step ? text.n : to + step;
		struct str in = {text.p + from, to - from}, piece;
		size_t n_before;
		do {
			n_before = in.n;
			chunked_take(&c, &in, &piece, &fail);
			buf_add_str(out, piece);
		} while (in.n < n_before && c.at < CHUNKED_END);
		from = to - in.n;
	}
	return c.at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n < 1)
		return 0;
	struct str text = {(const char *)data + 1, n - 1};
	size_t step = data[0] % 64 + 1u;
	struct verdict whole = read_head(text, text.n + 1), cut = read_head(text, step);
	if (whole.status != cut.status || whole.n != cut.n)
		abort();
	if (whole.status == OK)
		check_again(&whole);
	struct str body = {text.p + whole.n, text.n - whole.n};
	struct buf a = {0}, b = {0};
	enum chunked_at at = read_chunks(body, body.n + 1, &a);
	if (read_chunks(body, step, &b) != at || a.n > body.n ||
	    (at != CHUNKED_BAD && !str_eq(buf_str(&a), buf_str(&b))))
		abort();
	buf_deinit(&a);
	buf_deinit(&b);
	buf_deinit(&whole.clean);
	buf_deinit(&cut.clean);
	return 0;
}
