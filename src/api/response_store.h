/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations that a client may continue by naming the last answer's id
 * (previous_response_id). They are kept in memory only: a full store drops its oldest ones,
 * and all are lost with the process. Clients then send the history themselves. Thread: any.
 *
 * Each conversation belongs to an owner, the API key that made it; 0 stands for
 * everybody where there are no keys. Another owner does not find it. In a full store
 * the owner who holds most loses its oldest entry, so one owner cannot push out what
 * the others keep.
 */
#pragma once
#include "base/buf.h"

struct response_store;

struct response_store *response_store_create(int max_entries, size_t max_bytes);
void response_store_destroy(struct response_store *s);
/* What is kept of a response, each as JSON. */
enum response_part {
	RESPONSE_MESSAGES, /* the conversation as messages of a chat: a list */
	RESPONSE_BODY,     /* the response object, as it was sent */
	RESPONSE_INPUT,    /* the request's own items, a list */
};
#define RESPONSE_PARTS 3
/* Copies the parts and keeps them under id. Parts larger than the whole store are not kept. */
void response_store_put(struct response_store *s, uint64_t owner, struct str id,
			const struct str parts[RESPONSE_PARTS]);
/* Appends a part of response id to *out. False: the owner has no response of that id (any
 * more). */
bool response_store_get(struct response_store *s, uint64_t owner, struct str id,
			enum response_part part, struct buf *out) MUST_USE;
/* False: the owner has no response of that id. */
bool response_store_delete(struct response_store *s, uint64_t owner, struct str id);
