/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded store of values under byte keys that evicts the least recently used entry.
 * Each entry has an owner, and different owners never see each other's keys. A full store
 * evicts from the owner who holds most, so one owner cannot drive out the others.
 *
 * A lookup costs the same however many keys there are. Thread: any; the store has a lock.
 * lru_get's callback copies or references the value under that lock.
 */
#pragma once
#include "base/buf.h"

struct lru;

struct lru_opts {
	int max_entries;
	size_t max_bytes; /* bytes of all keys and values together */
	bool keeps_order; /* true: evict the oldest entry, even if it was used lately */
	bool grows; /* values may grow while stored: all are counted again at each put */
	size_t (*size)(void *value); /* in bytes */
	/* Frees a value, or gives up the reference, after it left the store. */
	void (*drop)(void *value);
};

/* An entry's name. owner 0 means: no owners are distinguished. */
struct lru_key {
	uint64_t owner;
	struct str name;
};

struct lru *lru_create(const struct lru_opts *o);
void lru_destroy(struct lru *l);
/* Store a value and own it; an older value of this key is dropped. A value larger than
 * the whole store is dropped at once, and so is one for whose key there is no memory, and one
 * of a request that is over (base/work.h). */
void lru_put(struct lru *l, struct lru_key key, void *value);
/* Call use(value, ctx) under the lock. Returns false if the key is not in the store. */
bool lru_get(struct lru *l, struct lru_key key, void (*use)(void *value, void *ctx),
	     void *ctx);
/* Returns false if the key is not in the store. */
bool lru_delete(struct lru *l, struct lru_key key);
