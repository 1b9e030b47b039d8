/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events, the reading side: bytes in, `data:` payloads out. Thread: one
 * at a time.
 */
#pragma once
#include "base/buf.h"

struct sse {
	struct buf line; /* as much of one as has come */
	struct buf data; /* of the event so far */
	bool has_data;
};
/* Call on_data for each event that n bytes complete. E_LIMIT where a line or an
 * event is longer than 16 MiB. */
enum status sse_push(struct sse *s, const char *p, size_t n,
		     void (*on_data)(void *ctx, struct str data),
		     void *ctx) MUST_USE;
void sse_deinit(struct sse *s);
