/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of a request: request line and headers, up to the empty line. Pure: bytes
 * in, a verdict out. Thread: any.
 *
 * Two parsers may disagree on where a request ends. Then a proxy sees a body where the
 * server behind it sees the next request (request smuggling). So this parser refuses
 * everything that RFC 9112 does not allow, and gate.c writes a new head for
 * libmicrohttpd. The new head has no fold, no NUL, and no bare CR or LF. Each name is a
 * token, each value has no blanks around it, and one header alone tells where the body
 * ends.
 */
#pragma once
#include "base/buf.h"

/* More is refused with 414 and 431. The second bounds the whole head. */
#define HEAD_LINE_MAX (8u << 10)
#define HEAD_MAX (16u << 10)
#define HEAD_FIELDS_MAX 100

struct head {
	char method[16];     /* "": none was readable */
	struct str target;   /* as sent; into the text */
	int minor;           /* HTTP/1.0 or HTTP/1.1 and later: 0 or 1 */
	int64_t length;      /* of the body; 0: none; -1: in chunks */
	bool is_close;       /* the client wants no second answer */
	bool expects_continue; /* it waits for our word before the body */
};

/* Look at the lines that came since the last call; *scanned begins at 0. Returns the
 * length of the head with its empty line, or 0 while more must come. On failure -1 and
 * *fail: E_FRAMING, E_URI_LONG or E_HEAD_LONG. */
ptrdiff_t head_scan(struct str text, size_t *scanned, struct fail *fail) MUST_USE;

/* Read a whole head, head_scan's length of it. *clean: appended, the same head as
 * libmicrohttpd is to see it. E_FRAMING, E_HTTP_VERSION, E_UNSUPPORTED, E_URI_LONG,
 * E_HEAD_LONG; then method and target of *out are what could be read, for the log. */
enum status head_parse(struct str text, struct head *out, struct buf *clean,
		       struct fail *fail) MUST_USE;

/* One field line without its end. E_FRAMING. Trailers are checked by it, too. */
enum status head_field(struct str line, struct str *out_name, struct str *out_value,
		       struct fail *fail) MUST_USE;
