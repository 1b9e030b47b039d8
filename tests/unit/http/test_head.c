/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads and chunks, whole and byte by byte: what is taken, and what is refused with
 * which status.
 */
#include "http/head.h"

#include <stdlib.h>

#include "http/chunked.h"
#include "tests/tap.h"

#define LINE "POST /x HTTP/1.1\r\n"
#define HOST "Host: h\r\n"
#define END "\r\n"

/* --- heads ------------------------------------------------------------------------ */

static struct head head;
static struct buf clean;
static struct fail fail;

/* The status of a head that comes in pieces of `step` bytes. */
static enum status read_head(struct str text, size_t step)
{
	size_t scanned = 0;
	ptrdiff_t n = 0;
	fail = (struct fail){0};
	for (size_t seen = 0; n == 0 && seen < text.n;) {
		seen = seen + step < text.n ? seen + step : text.n;
		n = head_scan((struct str){text.p, seen}, &scanned, &fail);
	}
	buf_clear(&clean);
	if (n < 0)
		return fail.code;
	if (n == 0)
		return E_TIMEOUT; /* more would have to come */
	return head_parse((struct str){text.p, (size_t)n}, &head, &clean, &fail);
}

static const struct {
	const char *what;
	struct str text;
	enum status want;
} heads[] = {
#define ROW(what, text, want) {what, {text, sizeof(text) - 1}, want}
	ROW("a head", LINE HOST END, OK),
	ROW("empty lines before it", "\r\n\r\n" LINE HOST END, OK),
	ROW("a minor version to come", "GET / HTTP/1.7\r\n" HOST END, OK),
	ROW("an absolute address", "GET http://h/x HTTP/1.1\r\n" HOST END, OK),
	ROW("OPTIONS *", "OPTIONS * HTTP/1.1\r\n" HOST END, OK),
	ROW("bytes of another alphabet in a value", LINE HOST "X: \xc3\xa4\r\n" END, OK),
	ROW("an empty value", LINE HOST "X:\r\n" END, OK),
	ROW("a length with blanks behind it", LINE HOST "Content-Length: 5 \t\r\n" END, OK),
	ROW("a length", LINE HOST "Content-Length: 000000000000000005\r\n" END, OK),
	ROW("half a head", LINE HOST, E_TIMEOUT),
	/* folds */
	ROW("a fold", LINE HOST "X: a\r\n b\r\n" END, E_FRAMING),
	ROW("a fold with a tab", LINE HOST "X: a\r\n\tb\r\n" END, E_FRAMING),
	ROW("a folded length", LINE HOST "Content-Length:\r\n 30\r\n" END, E_FRAMING),
	ROW("a folded encoding", LINE HOST "Transfer-Encoding:\r\n chunked\r\n" END,
	    E_FRAMING),
	ROW("a folded name", LINE HOST "Content-: 30\r\n Length\r\n" END, E_FRAMING),
	ROW("a fold of Host", LINE "Hos: x\r\n t\r\n" END, E_FRAMING),
	ROW("a fold before the first header", LINE " Host: h\r\n" END, E_FRAMING),
	/* NUL, CR, LF */
	ROW("a NUL in a length", LINE HOST "Content-Length: 0\0" "30\r\n" END, E_FRAMING),
	ROW("a NUL in an encoding", LINE HOST "Transfer-Encoding: chunked\0x\r\n" END,
	    E_FRAMING),
	ROW("a NUL in a name", LINE HOST "Content\0-Length: 3\r\n" END, E_FRAMING),
	ROW("a NUL in the address", "GET /\0x HTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("a NUL in Host", LINE "Host: h\0i\r\n" END, E_FRAMING),
	ROW("a CR in a value", LINE HOST "X: a\rb\r\n" END, E_FRAMING),
	ROW("a CR in the address", "GET /\rx HTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("two CRs", LINE HOST "X: a\r\r\n" END, E_FRAMING),
	ROW("a bare LF", LINE HOST "X: a\n" END, E_FRAMING),
	ROW("bare LFs only", "GET / HTTP/1.1\nHost: h\n\n", E_FRAMING),
	ROW("a bare LF at the end", LINE HOST "\n", E_FRAMING),
	/* names and values */
	ROW("no colon", LINE HOST "nonsense\r\n" END, E_FRAMING),
	ROW("an empty name", LINE HOST ": v\r\n" END, E_FRAMING),
	ROW("a blank in a name", LINE HOST "Content Length: 3\r\n" END, E_FRAMING),
	ROW("a blank before the colon", LINE HOST "Content-Length : 3\r\n" END, E_FRAMING),
	ROW("another alphabet in a name", LINE HOST "\xc3\xa4: 3\r\n" END, E_FRAMING),
	ROW("a control character", LINE HOST "X: a\001b\r\n" END, E_FRAMING),
	/* lengths and encodings */
	ROW("two lengths", LINE HOST "Content-Length: 3\r\nContent-Length: 3\r\n" END,
	    E_FRAMING),
	ROW("a list of lengths", LINE HOST "Content-Length: 5, 5\r\n" END, E_FRAMING),
	ROW("a sign", LINE HOST "Content-Length: +5\r\n" END, E_FRAMING),
	ROW("a negative length", LINE HOST "Content-Length: -1\r\n" END, E_FRAMING),
	ROW("a blank in a length", LINE HOST "Content-Length: 1 2\r\n" END, E_FRAMING),
	ROW("hexadecimal", LINE HOST "Content-Length: 0x10\r\n" END, E_FRAMING),
	ROW("an empty length", LINE HOST "Content-Length:\r\n" END, E_FRAMING),
	ROW("2^64", LINE HOST "Content-Length: 18446744073709551616\r\n" END, E_FRAMING),
	ROW("length and encoding", LINE HOST
	    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" END, E_FRAMING),
	ROW("two encodings", LINE HOST
	    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" END, E_FRAMING),
	ROW("two codings", LINE HOST "Transfer-Encoding: gzip, chunked\r\n" END, E_FRAMING),
	ROW("another coding", LINE HOST "Transfer-Encoding: xchunked\r\n" END, E_FRAMING),
	ROW("quotes", LINE HOST "Transfer-Encoding: \"chunked\"\r\n" END, E_FRAMING),
	ROW("a comma", LINE HOST "Transfer-Encoding: chunked,\r\n" END, E_FRAMING),
	ROW("an encoding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" END,
	    E_FRAMING),
	/* Host */
	ROW("no Host", LINE END, E_FRAMING),
	ROW("two Hosts", LINE HOST HOST END, E_FRAMING),
	ROW("a Host with a blank", LINE "Host: a b\r\n" END, E_FRAMING),
	ROW("a Host with a slash", LINE "Host: a/b\r\n" END, E_FRAMING),
	ROW("a Host with a user", LINE "Host: a@b\r\n" END, E_FRAMING),
	ROW("a Host with a wrong port", LINE "Host: h:8x\r\n" END, E_FRAMING),
	ROW("half an IPv6 address", LINE "Host: [::1\r\n" END, E_FRAMING),
	ROW("an IPv6 address", LINE "Host: [::1]:8080\r\n" END, OK),
	ROW("an empty Host", LINE "Host:\r\n" END, OK),
	/* request lines */
	ROW("no version", "GET /\r\n" HOST END, E_FRAMING),
	ROW("a blank before the method", " GET / HTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("tabs between the words", "GET\t/\tHTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("two blanks", "GET  / HTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("a blank in the address", "GET /a b HTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("a blank at the end", "GET / HTTP/1.1 \r\n" HOST END, E_FRAMING),
	ROW("small letters", "GET / http/1.1\r\n" HOST END, E_FRAMING),
	ROW("a version with three digits", "GET / HTTP/1.10\r\n" HOST END, E_FRAMING),
	ROW("an address that is none", "GET x HTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("GET *", "GET * HTTP/1.1\r\n" HOST END, E_FRAMING),
	ROW("HTTP/2", "PRI * HTTP/2.0\r\n" HOST END, E_HTTP_VERSION),
	ROW("HTTP/9", "GET / HTTP/9.9\r\n" HOST END, E_HTTP_VERSION),
	ROW("a method nobody knows", "BREW / HTTP/1.1\r\n" HOST END, E_UNSUPPORTED),
	ROW("a method in small letters", "get / HTTP/1.1\r\n" HOST END, E_UNSUPPORTED),
	ROW("TLS", "\026\003\001\002\000\001\n", E_FRAMING),
#undef ROW
};

static void test_heads(void)
{
	for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
		enum status whole = read_head(heads[i].text, heads[i].text.n);
		enum status slow = read_head(heads[i].text, 1);
		is_int(whole, heads[i].want, "%s", heads[i].what);
		is_int(slow, whole, "%s, byte by byte", heads[i].what);
	}
}

static void is_clean(const char *text, const char *want, const char *what)
{
	is_int(read_head(str_of(text), 7), OK, "%s: fine", what);
	is_str(clean.p, want, "%s: as libmicrohttpd sees it", what);
}

static void test_clean(void)
{
	is_clean("GET /a?b=c HTTP/1.1\r\nhOsT:  h \r\nX:\ta  b\t\r\nTE: x\r\n"
		 "Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\nCookie: d=e; f\r\n" END,
		 "GET /a HTTP/1.1\r\nhOsT: h\r\nX: a  b\r\n\r\n", "headers");
	is_clean(LINE HOST "Content-Length: 7\r\nExpect: 100-Continue\r\n" END,
		 LINE HOST "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
		 "a body");
	ok(head.length == 7 && head.expects_continue && !head.is_close, "its length");
	is_clean(LINE HOST "transfer-encoding: CHUNKED\r\nConnection: x , Close\r\n" END,
		 LINE HOST "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
		 "chunks");
	ok(head.length == -1 && head.is_close, "to be closed");
	is_clean("POST / HTTP/1.0\r\nContent-Length: 3\r\n" END,
		 "POST / HTTP/1.0\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
		 "HTTP/1.0");
	is_clean("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n" END,
		 "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "HTTP/1.0, kept");
}

/* n times the byte between two texts. */
static struct str filled(const char *before, size_t n, char c, const char *after)
{
	static struct buf b;
	buf_clear(&b);
	buf_add_z(&b, before);
	for (size_t i = 0; i < n; i++)
		buf_add_c(&b, c);
	buf_add_z(&b, after);
	return buf_str(&b);
}

static void test_limits(void)
{
	const char *rest = " HTTP/1.1\r\n" HOST END;
	is_int(read_head(filled("GET /", 8000, 'x', rest), 999), OK, "a long address");
	is_int(read_head(filled("GET /", 9000, 'x', rest), 999), E_URI_LONG, "a longer one");
	is_int(read_head(filled("GET /", 9000, 'x', rest), 99999), E_URI_LONG, "at once");
	is_int(read_head(filled("GET /", 9000, 'x', ""), 999), E_URI_LONG, "without an end");
	is_int(read_head(filled(LINE HOST "X: ", 15000, 'x', "\r\n" END), 999), OK,
	       "a long header");
	is_int(read_head(filled(LINE HOST "X: ", 20000, 'x', "\r\n" END), 99999),
	       E_HEAD_LONG, "a longer one");
	is_int(read_head(filled(LINE HOST "X: ", 20000, 'x', ""), 999), E_HEAD_LONG,
	       "without an end");
	struct buf b = {0};
	buf_add_z(&b, LINE HOST);
	for (int i = 0; i < 101; i++)
		buf_add_z(&b, "X:\r\n");
	buf_add_z(&b, END);
	is_int(read_head(buf_str(&b), b.n), E_HEAD_LONG, "many headers");
	buf_deinit(&b);
}

/* --- chunks ------------------------------------------------------------------------ */

static const struct {
	const char *what, *text;
	enum chunked_at at;
	const char *body;
} chunks[] = {
	{"two chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", CHUNKED_END, "abcde"},
	{"what comes behind", "1\r\na\r\n0\r\n\r\nGET /", CHUNKED_END, "a"},
	{"capitals and zeros", "00A\r\n0123456789\r\n0\r\n\r\n", CHUNKED_END, "0123456789"},
	{"an extension", "1;x=\"y\";z\r\na\r\n0;q\r\n\r\n", CHUNKED_END, "a"},
	{"a trailer", "1\r\na\r\n0\r\nContent-Length: 5\r\nX: y\r\n\r\nz", CHUNKED_END, "a"},
	{"half of one", "5\r\nabc", CHUNKED_DATA, NULL},
	{"a negative size", "-1\r\na\r\n", CHUNKED_BAD, NULL},
	{"a sign", "+1\r\na\r\n", CHUNKED_BAD, NULL},
	{"0x", "0x1\r\na\r\n", CHUNKED_BAD, NULL},
	{"17 digits", "00000000000000001\r\na\r\n", CHUNKED_BAD, NULL},
	{"no size", "\r\na\r\n", CHUNKED_BAD, NULL},
	{"a blank", " 1\r\na\r\n", CHUNKED_BAD, NULL},
	{"a blank behind", "1 \r\na\r\n", CHUNKED_BAD, NULL},
	{"LF behind the size", "1\na\r\n0\r\n\r\n", CHUNKED_BAD, NULL},
	{"LF behind the data", "1\r\na\n0\r\n\r\n", CHUNKED_BAD, NULL},
	{"CR alone behind the data", "1\r\na\rx", CHUNKED_BAD, NULL},
	{"LF in an extension", "1;a\nb\r\na\r\n0\r\n\r\n", CHUNKED_BAD, NULL},
	{"CR in an extension", "1;a\rb\r\na\r\n0\r\n\r\n", CHUNKED_BAD, NULL},
	{"more data than the size", "1\r\nabc\r\n0\r\n\r\n", CHUNKED_BAD, NULL},
	{"LF behind the last", "1\r\na\r\n0\r\n\n", CHUNKED_BAD, NULL},
	{"a trailer that is none", "1\r\na\r\n0\r\nnonsense\r\n\r\n", CHUNKED_BAD, NULL},
	{"a fold in the trailers", "1\r\na\r\n0\r\nX: y\r\n z\r\n\r\n", CHUNKED_BAD, NULL},
};

/* Body and state of a text in pieces of `step` bytes; *out_left: what was not taken. */
static enum chunked_at read_chunks(const char *text, size_t step, struct buf *out,
				   size_t *out_left)
{
	struct chunked c = {0};
	struct fail why;
	size_t n = strlen(text), from = 0;
	buf_clear(out);
	for (size_t to = 0; to < n && c.at < CHUNKED_END;) {
		to = to + step < n ? to + step : n;
		struct str in = {text + from, to - from}, piece;
		size_t n_before;
		do {
			n_before = in.n;
			chunked_take(&c, &in, &piece, &why);
			buf_add_str(out, piece);
		} while (in.n < n_before && c.at < CHUNKED_END);
		from = to - in.n;
	}
	*out_left = n - from;
	return c.at;
}

static void test_chunks(void)
{
	struct buf body = {0};
	size_t left;
	for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
		for (size_t step = 1; step <= 100; step *= 10) {
			enum chunked_at at = read_chunks(chunks[i].text, step, &body, &left);
			is_int(at, chunks[i].at, "chunks, %s, by %zu", chunks[i].what, step);
			if (at == CHUNKED_END)
				ok(str_is(buf_str(&body), chunks[i].body), "its body");
		}
	read_chunks("1\r\na\r\n0\r\n\r\nGET /", 99, &body, &left);
	is_int(left, 5, "what stands behind the body is left");
	is_int(read_chunks(filled("1;", 2000, 'x', "").p, 99, &body, &left), CHUNKED_BAD,
	       "an extension without end");
	is_int(read_chunks("fffffffffffffff\r\nab", 99, &body, &left), CHUNKED_DATA,
	       "the largest size");
	is_int(read_chunks("ffffffffffffffff\r\nab", 99, &body, &left), CHUNKED_BAD,
	       "a larger one");
	buf_deinit(&body);
}

int main(void)
{
	test_heads();
	test_clean();
	test_limits();
	test_chunks();
	buf_deinit(&clean);
	return tap_done();
}
