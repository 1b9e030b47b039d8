/* SPDX-License-Identifier: Apache-2.0
 *
 * Which word of a list a mistyped one may have been meant to be. Thread: any.
 */
#pragma once
#include "base/buf.h"

struct near {
	struct str word;
	const char *best; /* the nearest of the names so far; NULL: none is near */
	int least;        /* edits up to which a name is a useful hint */
};

/* Begins a search for `word`, which stays the caller's. */
void near_begin(struct near *n, struct str word);
/* Looks at one name of the list; it is kept in n->best, so it must live as long. '-' and '_' are
 * the same. */
void near_try(struct near *n, const char *name);
