/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the history in the model's own words. A call whose exact text is known is
 * rendered under a name that occurs nowhere else; around that name the call's text in
 * the prompt is found and replaced. Where the format has no words that a call
 * begins and ends with, it is the arguments alone that are rendered so and replaced. Thread:
 * one at a time.
 */
#pragma once
#include "api/callstore.h"
#include "base/marked.h"
#include "output/toolformat.h"

struct chat_replay {
	struct arena *arena;
	struct callstore *store;          /* NULL: nothing is known */
	const struct tool_format *format; /* NULL: nothing is */
	bool takes_objects;               /* the template, for arguments; else strings */
	struct replay_call *calls;        /* the last one first */
	int n_calls;
	uint64_t secret; /* what makes the names unique; set with the first */
};

/* Is the call with this id one of ours, and unchanged (same name, equal arguments)?
 * Then the name to render it under, and in place of its arguments none, or one key
 * (*out_key; p NULL: none). */
bool replay_begin(struct chat_replay *r, struct str id, struct str name, struct str args,
		  struct str *out_name, struct str *out_key);
/* Replaces the stand-ins in the rendered prompt by the exact texts, or else by the names.
 * False: the template has not rendered a key as a key of an object. Then the caller renders
 * again, without a store. */
bool replay_apply(const struct chat_replay *r, struct marked *prompt) MUST_USE;
