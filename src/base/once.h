/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports each unknown word from outside only once, so that the log does not grow with
 * requests that repeat it. Thread: any. A struct once is static and is never freed.
 */
#pragma once
#include <pthread.h>

#include "base/map.h"

struct once {
	size_t max;       /* distinct words to report; further words are ignored */
	size_t max_bytes; /* a longer word is cut to this many bytes, at a character's end */
	pthread_mutex_t lock;
	struct strmap seen;
	void (*tell)(const char *word);
};

/* Set the function that reports a word; any thread may call it. NULL: report nothing. */
void once_set(struct once *o, void (*tell)(const char *word));
/* Report the word if it is new. */
void once_tell(struct once *o, struct str word);
