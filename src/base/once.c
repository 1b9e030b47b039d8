/* SPDX-License-Identifier: Apache-2.0 */
#include "base/once.h"

#include "base/alloc.h"
#include "base/utf8.h"

void once_set(struct once *o, void (*tell)(const char *word))
{
	pthread_mutex_lock(&o->lock);
	o->tell = tell;
	pthread_mutex_unlock(&o->lock);
}

void once_tell(struct once *o, struct str word)
{
	uint32_t known;
	if (word.n > o->max_bytes) {
		word.n = o->max_bytes;
		word.n -= utf8_partial_tail(word);
	}
	pthread_mutex_lock(&o->lock);
	if (!o->seen.cap)
		strmap_init(&o->seen, 16);
	bool is_new = o->tell && o->seen.n < o->max && !strmap_get(&o->seen, word, &known);
	if (is_new) {
		char *copy = xstrndup(word.p, word.n);
		strmap_put(&o->seen, (struct str){copy, word.n}, 1);
		o->tell(copy);
	}
	pthread_mutex_unlock(&o->lock);
}
