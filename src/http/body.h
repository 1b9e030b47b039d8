/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of one request while it arrives. Thread: io.
 *
 * libmicrohttpd takes no answer in the middle of an upload. A client that still writes when
 * this server closes gets a reset instead of the answer. So a refused body is read to its
 * end and dropped, up to BODY_SWALLOW_MAX, and answered then.
 *
 * A large body costs more memory than its bytes: JSON becomes a tree and text becomes
 * tokens. The worst text costs BODY_COST bytes for each byte (digits to /tokenize: 21
 * measured). A form is only cut to pieces; it is copied at most, as a buffer grows. A body
 * is charged with this cost from its first byte until it is parsed. All bodies together may
 * cost max_total. Bodies up to BODY_SMALL are free: max_connections bounds them.
 */
#pragma once
#include "base/buf.h"

struct body {
	struct buf buf;
	size_t max_bytes;  /* longer bodies are refused */
	size_t *total;     /* the cost of all bodies now, in bytes */
	size_t max_total;
	bool is_form;      /* costs BODY_COST_FORM */
	size_t n_charged;  /* this body's share of *total */
	uint64_t n_read;   /* bytes that came, kept or dropped */
	bool is_discarded;
};

/* A refused body longer than this is not read to its end: the connection is cut. */
#define BODY_SWALLOW_MAX (64u << 20)

#define BODY_COST 24
#define BODY_COST_FORM 3
#define BODY_SMALL (16u << 10)

/* Charges for a body of n bytes. E_BODIES: the other bodies leave too little memory. A body
 * that is alone is never refused. */
enum status body_expect(struct body *b, size_t n) MUST_USE;
/* Adds the next piece. E_TOO_LARGE, E_BODIES, E_NOMEM: the body is refused, and all further pieces
 * are dropped. E_LIMIT: cut the connection. */
enum status body_add(struct body *b, const char *p, size_t n) MUST_USE;
/* Drops the body; later pieces are read and dropped, too. */
void body_discard(struct body *b);
void body_deinit(struct body *b);
