/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the exact text of tool calls that halod wrote, by their ids. Clients parse a
 * call and send it back in another spelling. The prefix cache finds the prompt only if
 * it has the model's own words. Bounded. Thread: any.
 */
#pragma once
#include "base/arena.h"

struct callstore;

struct callstore_call {
	struct str name, args; /* as they were given out */
	struct str text;       /* the model's */
};

struct callstore *callstore_create(void);
void callstore_destroy(struct callstore *s);
/* Copies; an old call gives way. A text that is too long is left out. */
void callstore_put(struct callstore *s, struct str id,
		   const struct callstore_call *call);
/* False: not known (any more). Copied into arena a. */
bool callstore_get(struct callstore *s, struct str id, struct arena *a,
		   struct callstore_call *out);
