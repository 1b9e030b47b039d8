/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of a request: request line and headers, up to the empty line. Pure: a verdict on
 * bytes, without I/O. Thread: any.
 *
 * Two parsers may disagree on where a request ends. Then a proxy sees a body where the
 * server behind it sees the next request (request smuggling). So this parser refuses
 * everything that RFC 9112 does not allow, and gate.c writes a new head for
 * libmicrohttpd. The new head has no fold, no NUL, and no bare CR or LF. Each name is a
 * token, each value has no blanks around it, and one header alone tells where the body
 * ends. It has neither query nor cookies, which libmicrohttpd would split into parts that
 * need more memory than the bytes they came in.
 */
#pragma once
#include "base/buf.h"

/* A longer request line is refused with 414; a longer head, or more fields, with 431. */
#define HEAD_LINE_MAX (8u << 10)
#define HEAD_MAX (16u << 10)
#define HEAD_FIELDS_MAX 100

struct head {
	char method[16];     /* "": none could be read */
	struct str target;   /* as sent; a view into the parsed text */
	int minor;           /* HTTP/1.0 or HTTP/1.1 and later: 0 or 1 */
	int64_t length;      /* bytes of the body; 0: no body; -1: chunks */
	bool is_close;       /* the client wants the connection closed after the answer */
	bool expects_continue; /* the client waits for "100 Continue" before it sends the body */
};

/* Scans the lines that came since the last call; *scanned begins at 0. Returns the length
 * of the head with its empty line, or 0 while the head is incomplete. On failure -1 and
 * *fail: E_FRAMING, E_URI_LONG or E_HEAD_LONG. */
ptrdiff_t head_scan(struct str text, size_t *scanned, struct fail *fail) MUST_USE;

/* Parses a whole head, of the length that head_scan returned. Appends to *clean the same
 * head, rewritten for libmicrohttpd. E_FRAMING, E_HTTP_VERSION, E_UNSUPPORTED, E_URI_LONG,
 * E_HEAD_LONG; then method and target of *out hold what could be read, for the log. */
enum status head_parse(struct str text, struct head *out, struct buf *clean,
		       struct fail *fail) MUST_USE;

/* Parses one field line without its end; trailers, too. E_FRAMING. */
enum status head_field(struct str line, struct str *out_name, struct str *out_value,
		       struct fail *fail) MUST_USE;
