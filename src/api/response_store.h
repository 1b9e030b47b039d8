/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations that a client may go on with by naming the last answer's id
 * (previous_response_id). In memory only: the oldest go when there are too many, and
 * all with the process; clients then send the history themselves. Thread: any.
 */
#pragma once
#include "base/buf.h"

struct response_store;

struct response_store *response_store_create(int max_entries, size_t max_bytes);
void response_store_destroy(struct response_store *s);
/* Keep messages, a JSON list, under id. Both are copied; what alone is larger than
 * the store is not kept. */
void response_store_put(struct response_store *s, struct str id,
			struct str messages);
/* Append the messages of id to *out; false when they are not there (any more). */
bool response_store_get(struct response_store *s, struct str id,
			struct buf *out) MUST_USE;
