/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the exact text of tool calls that halod wrote, by their ids. Clients parse a call
 * and send it back in another spelling. The prefix cache finds a prompt only if the call
 * stands there in the model's own words. Bounded. Thread: any.
 */
#pragma once
#include "base/arena.h"

struct callstore;

struct callstore_call {
	struct str name, args; /* as the client was sent them */
	struct str text;       /* the whole call as the model wrote it */
};

struct callstore *callstore_create(void);
void callstore_destroy(struct callstore *s);
/* Copies the call; a full store drops an old one. A call with too long a text is not kept. */
void callstore_put(struct callstore *s, struct str id,
		   const struct callstore_call *call);
/* Copies the call into arena a. False: the store has no call of this id (any more). */
bool callstore_get(struct callstore *s, struct str id, struct arena *a,
		   struct callstore_call *out);
