/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of one request while it arrives. Thread: io.
 *
 * libmicrohttpd takes no answer in the middle of an upload, and a client that writes
 * while we close gets a reset instead of our words. So a body that is refused is read
 * to its end and dropped, within reason, and answered then.
 *
 * A large body costs more than its bytes: JSON is read into a tree and text into tokens,
 * BODY_COST bytes for each of the worst text (digits to /tokenize: 21 measured). All
 * bodies are charged for that from their first byte until they are parsed, and together
 * may cost so much. Small ones are free: max_connections bounds them.
 */
#pragma once
#include "base/buf.h"

struct body {
	struct buf buf;
	size_t max_bytes;  /* to keep */
	size_t *total;     /* what all bodies are charged for, in bytes */
	size_t max_total;
	size_t n_charged;  /* of *total */
	uint64_t n_read;   /* bytes that came, kept or not */
	bool is_discarded;
};

/* More than this is not even read to be dropped. */
#define BODY_SWALLOW_MAX (64u << 20)

#define BODY_COST 24
#define BODY_SMALL (16u << 10)

/* n bytes are announced: charge for them. E_BODIES: too many are here already. A body
 * that is alone is never refused. */
enum status body_expect(struct body *b, size_t n) MUST_USE;
/* Next piece. E_TOO_LARGE, E_BODIES: from here on what comes is dropped; E_LIMIT: cut
 * the connection. */
enum status body_add(struct body *b, const char *p, size_t n) MUST_USE;
/* Read on, keep nothing. */
void body_discard(struct body *b);
void body_deinit(struct body *b);
