/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded store: bytes under keys, the least recently used one gives way. Each entry has
 * an owner, and keys of different owners never meet. When the store is full, the owner who
 * holds most gives way, so that one owner cannot drive out another's entries.
 *
 * Keys are few thousands at most: finding is a walk over hashes. Thread: any, the store
 * has a lock. What lru_get gives out is copied, or referenced, under it.
 */
#pragma once
#include "base/buf.h"

struct lru;

struct lru_opts {
	int max_entries;
	size_t max_bytes; /* of keys and sizes of values, all together */
	bool keeps_order; /* a use does not make an entry younger: the oldest gives way */
	/* How large a value is now; it may grow while it is kept. */
	size_t (*size)(void *value);
	/* Lets go of a value that the store does not hold any more. */
	void (*drop)(void *value);
};

/* An entry's name. owner 0: there are none. */
struct lru_key {
	uint64_t owner;
	struct str name;
};

struct lru *lru_create(const struct lru_opts *o);
void lru_destroy(struct lru *l);
/* Takes the value over, in place of an older one of this key. A value that is alone too
 * large is dropped at once. */
void lru_put(struct lru *l, struct lru_key key, void *value);
/* Calls use(value, ctx) under the lock; false: there is no such key (any more). */
bool lru_get(struct lru *l, struct lru_key key, void (*use)(void *value, void *ctx),
	     void *ctx);
/* False: there is no such key. */
bool lru_delete(struct lru *l, struct lru_key key);
