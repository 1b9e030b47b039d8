/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of one request while it arrives. Thread: io.
 *
 * libmicrohttpd takes no answer in the middle of an upload, and a client that writes
 * while we close gets a reset instead of our words. So a body that is refused is read
 * to its end and dropped, within reason, and answered then.
 */
#pragma once
#include "base/buf.h"

struct body {
	struct buf buf;
	size_t max_bytes;  /* to keep */
	size_t *total;     /* bytes kept by all bodies together */
	size_t max_total;
	uint64_t n_read;   /* bytes that came, kept or not */
	bool is_discarded;
};

/* More than this is not even read to be dropped. */
#define BODY_SWALLOW_MAX (64u << 20)

/* Next piece. E_TOO_LARGE, E_QUEUE_FULL (too much is being uploaded at once): from
 * here on what comes is dropped; E_LIMIT: cut the connection. */
enum status body_add(struct body *b, const char *p, size_t n) MUST_USE;
/* Read on, keep nothing. */
void body_discard(struct body *b);
void body_deinit(struct body *b);
