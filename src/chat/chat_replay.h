/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts calls of the history into the prompt in the model's own words. A call whose exact
 * text is known is rendered under a name that occurs nowhere else. The text around that
 * name is then replaced by the exact text. Where a format has no words that begin and end a
 * call, the arguments alone are rendered so and replaced. Thread: one at a time.
 */
#pragma once
#include "chat/callstore.h"
#include "base/marked.h"
#include "output/toolformat.h"

struct chat_replay {
	struct arena *arena;
	struct callstore *store;          /* the exact texts; NULL: no call is replaced */
	const struct tool_format *format; /* of the calls; NULL: no call is replaced */
	/* the template takes arguments as objects, not as strings */
	bool takes_objects;
	struct replay_call *calls;        /* the last one first */
	int n_calls;
	uint64_t secret; /* random, makes the names unique; drawn with the first call */
};

/* Is the call with this id one of ours, and unchanged (same name, equal arguments)? Then
 * *out_name is the name to render it under. Its arguments are rendered empty, or with the
 * one key *out_key (p NULL: none). */
bool replay_begin(struct chat_replay *r, struct str id, struct str name, struct str args,
		  struct str *out_name, struct str *out_key);
/* Replaces the stand-ins in the rendered prompt by the exact texts, or else by the names.
 * False: the template has not rendered a key as a key of an object. Then the caller renders
 * again, without a store. */
bool replay_apply(const struct chat_replay *r, struct marked *prompt) MUST_USE;
