/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that come from outside and are told of once each: a log must not grow with the
 * requests that repeat them. Thread: any. A struct once is static and is never freed.
 */
#pragma once
#include <pthread.h>

#include "base/map.h"

struct once {
	size_t max;       /* different words; further ones are not told of */
	size_t max_bytes; /* of a word that are told; whole characters */
	pthread_mutex_t lock;
	struct strmap seen;
	void (*tell)(const char *word);
};

/* From now on tell by this function, which any thread may call; NULL: do not. */
void once_set(struct once *o, void (*tell)(const char *word));
/* Tells of a word that is new. */
void once_tell(struct once *o, struct str word);
