/* SPDX-License-Identifier: Apache-2.0
 *
 * What reading (cpu_cache.c) and writing (cpu_cache_write.c) the file share; its layout is
 * in cpu_cache.h.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "backend/cpu/cpu_cache.h"
#include "base/buf.h"

#define CACHE_MAGIC "halodwc1"

enum { CACHE_HUGE = 2 << 20, CACHE_ALIGN = 64 };

struct cache_head {
	char magic[8];
	uint64_t key_bytes, n_entries;
	uint64_t file_bytes;
	uint64_t sum; /* cpu_cache_sum of key and entries, as they lie */
};

struct cache_entry {
	uint64_t i, what, n_bytes;
	uint64_t at;  /* in the file */
	uint64_t sum; /* cpu_cache_sum */
};

/* What is to be in the file: bytes of this process, or found in the older file. */
struct cache_item {
	struct cache_entry entry;
	const void *p;
};

struct cpu_cache {
	struct cpu_cache_opts o; /* dir and model: for cpu_cache_open only */
	char *dir;
	char *path; /* of the file; NULL: nothing is found nor kept */
	struct buf key;
	char note[400];
	const char *fault; /* why the file that was there is not used; NULL: none was */
	/* The file that was there; NULL: none that fits. */
	const uint8_t *map;
	size_t map_bytes;
	const struct cache_entry *entries;
	size_t n_entries, next; /* the first that may be the next asked for */
	struct cache_item *items;
	size_t n_items, cap_items;
	bool is_new; /* an item was not in the file */
	pthread_t writer;
	bool is_writing; /* writer is there to be joined */
	atomic_bool stop;
};

static inline size_t cache_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Where the entries begin. */
static inline size_t cache_entries_at(size_t key_bytes)
{
	return cache_up(sizeof(struct cache_head) + key_bytes, 8);
}

/* Of key and entries, which lie together. */
static inline size_t cache_index_bytes(size_t key_bytes, size_t n_entries)
{
	return cache_entries_at(key_bytes) + n_entries * sizeof(struct cache_entry) -
	       sizeof(struct cache_head);
}

/* Where the weights begin. */
static inline size_t cache_data_at(size_t key_bytes, size_t n_entries)
{
	return cache_up(sizeof(struct cache_head) +
				cache_index_bytes(key_bytes, n_entries),
			CACHE_HUGE);
}

/* n bytes of the file from `at` on, a multiple of 2 MiB, at such an address, read-only;
 * NULL: errno says why. Ended by munmap(p, n). */
void *cache_map(int fd, size_t at, size_t n);
/* Do the 2 MiB of the file at `at` come as one huge page? */
bool cache_is_huge(int fd, size_t at);

/* Removes what nobody can use: this model's file where none of it was found, those of
 * models that are gone, and what writers that crashed have left. */
void cache_make_room(const struct cpu_cache *c);
/* Why a file of the cache's items is not to be written; NULL: it is. */
const char *cache_refusal(const struct cpu_cache *c);
/* The writer's thread: void * is the cache. */
void *cache_write(void *arg);
