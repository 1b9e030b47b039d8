/* SPDX-License-Identifier: Apache-2.0
 *
 * The token histories of the last conversations, to say what a new prompt has in common
 * with them. Only for explanations: nothing is served from here. Bounded by number and by
 * tokens; the history that was used least recently gives way. Thread: engine.
 */
#pragma once
#include "base/buf.h"

enum { HISTORIES_MAX = 64, HISTORIES_MAX_TOKENS = 4 << 20 }; /* 16 MiB */

struct histories;

struct histories *histories_create(void);
void histories_destroy(struct histories *p); /* NULL is fine */
/* Remember n tokens within a space of the prefix cache (kv/spaces.h). Tokens that continue a
 * history take its place. Tokens and name are copied. */
void histories_add(struct histories *p, struct str space, const int32_t *tokens, int n);

struct history_match {
	int n_alike;           /* tokens in common, from the first on */
	const int32_t *tokens; /* (n) the history; NULL: none has a token in common */
	int n;
};
/* The history of this space that begins most like the tokens. It counts as used. Valid until
 * the next histories_add. */
void histories_find(struct histories *p, struct str space, const int32_t *tokens, int n,
		    struct history_match *out);
