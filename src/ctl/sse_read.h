/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads server-sent events: takes bytes and gives the payloads of `data:`. Thread: one
 * at a time.
 */
#pragma once
#include "base/buf.h"

struct sse {
	struct buf line; /* the beginning of an incomplete line */
	struct buf data; /* data of the incomplete event */
	bool has_data;
};
/* Call on_data for each event that n bytes complete. E_LIMIT if a line or an event is longer
 * than 16 MiB. */
enum status sse_push(struct sse *s, const char *p, size_t n,
		     void (*on_data)(void *ctx, struct str data),
		     void *ctx) MUST_USE;
void sse_deinit(struct sse *s);
