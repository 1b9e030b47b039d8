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
/* What is kept of a response, each as JSON. */
enum response_part {
	RESPONSE_MESSAGES, /* the conversation as a chat has it, a list */
	RESPONSE_BODY,     /* the answer */
	RESPONSE_INPUT,    /* the request's own items, a list */
};
#define RESPONSE_PARTS 3
/* Keep the parts under id. All is copied; what alone is larger than the store is not
 * kept. */
void response_store_put(struct response_store *s, struct str id,
			const struct str parts[RESPONSE_PARTS]);
/* Append a part of id to *out; false when it is not there (any more). */
bool response_store_get(struct response_store *s, struct str id, enum response_part part,
			struct buf *out) MUST_USE;
/* False when there is none of that id. */
bool response_store_delete(struct response_store *s, struct str id);
