/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the reader (cpu_cache.c) and the writer (cpu_cache_write.c) of the cache
 * file. cpu_cache.h describes the layout.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "backend/cpu/cpu_cache.h"
#include "base/alloc.h"
#include "base/buf.h"

#define CACHE_MAGIC "halodwc2"

enum { CACHE_HUGE = 2 << 20, CACHE_ALIGN = 64 };

struct cache_head {
	char magic[8];
	uint64_t key_bytes, n_entries;
	uint64_t file_bytes;
	uint64_t sum; /* cpu_cache_sum of key and entries, as stored */
};

struct cache_entry {
	uint64_t i, what, n_bytes;
	uint64_t at;  /* offset in the file */
	uint64_t sum; /* cpu_cache_sum of the weight's bytes */
};

/* A weight to write: bytes in this process's memory, or in the mapped older file. */
struct cache_item {
	struct cache_entry entry;
	const void *p;
};

struct cpu_cache {
	struct cpu_cache_opts o; /* dir and model are valid in cpu_cache_open only */
	char *dir;
	char *path; /* the file; NULL: nothing is found or kept */
	struct buf key;
	char note[400];
	const char *fault; /* why the existing file is not used; NULL: there was none */
	/* The mapped file; NULL: no file, or none that fits. */
	const uint8_t *map;
	size_t map_bytes;
	const struct cache_entry *entries;
	size_t n_entries, next; /* next: index of the first entry that may be requested next */
	struct cache_item *items;
	size_t n_items, cap_items;
	bool is_new; /* an item was not in the file */
	pthread_t writer;
	bool is_writing; /* the thread `writer` exists and must be joined */
	atomic_bool stop;
};

/* Offset of the entries in the file. */
static inline size_t cache_entries_at(size_t key_bytes)
{
	return ROUND_UP(sizeof(struct cache_head) + key_bytes, 8);
}

/* Bytes of key and entries, which are contiguous. */
static inline size_t cache_index_bytes(size_t key_bytes, size_t n_entries)
{
	return cache_entries_at(key_bytes) + n_entries * sizeof(struct cache_entry) -
	       sizeof(struct cache_head);
}

/* Offset of the weights in the file. */
static inline size_t cache_data_at(size_t key_bytes, size_t n_entries)
{
	return ROUND_UP(sizeof(struct cache_head) +
				cache_index_bytes(key_bytes, n_entries),
			CACHE_HUGE);
}

/* True if the 2 MiB of the file at offset `at` are mapped as one huge page. */
bool cache_is_huge(int fd, size_t at);

/* Delete useless files: this model's file if none of it was used, files of models that no
 * longer exist, and remains of writers that crashed. */
void cache_make_room(const struct cpu_cache *c);
/* Why the cache's items should not be written to a file; NULL if they should. */
const char *cache_refusal(const struct cpu_cache *c);
/* Main function of the writer's thread; arg is the cache. */
void *cache_write(void *arg);
