/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact text of tool calls that were written here, by their ids: a client sends
 * them back parsed and spelled anew, and the prompt's prefix is found in the cache
 * only where it has the model's own words. Bounded. Thread: any.
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
