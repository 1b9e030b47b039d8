/* SPDX-License-Identifier: Apache-2.0
 *
 * A file with weights in the CPU's packed form (cpu_panels.h). A later start maps the
 * file instead of packing again. That saves the work and, more important, memory: all
 * processes that map the file share its pages in the page cache.
 *
 * There is one file for each model folder and instruction set:
 * FOLDER-HASH-ISA.halod-weights. It is in the machine's byte order:
 *
 *   struct cache_head       cpu_cache_private.h
 *   key (key_bytes)         text: version, instruction set, model files with size and time
 *   entries (n_entries)     struct cache_entry, in loading order; from a multiple of 8
 *   bytes of the weights    from a multiple of 2 MiB, each from a multiple of 64
 *
 * A file with another key belongs to another version of the model and is replaced. Bytes
 * are checked against their sum before use. So a file cut short, or left half written by
 * a crash, costs time but never gives wrong numbers. Sums cannot detect that the packing
 * code has changed since; so callers should also compare some of the bytes, as
 * cpu_weight.c does.
 *
 * Truncating the file while it is mapped ends the process with SIGBUS, as with a model's
 * own files. Deleting it does no harm.
 *
 * The cache is only used where mapped files get huge pages (Linux 6.16 with ext4, 5.18
 * with XFS). In small pages a token takes a quarter longer for the life of the process.
 *
 * Thread: one; a separate thread writes the file.
 */
#pragma once
#include "base/pool.h"
#include "model/model.h"

#define CPU_CACHE_SUFFIX ".halod-weights"

struct cpu_cache;

struct cpu_cache_opts {
	const char *dir;  /* created if missing, but its parent is not */
	const char *isa;
	const struct model *model;
	struct pool *pool; /* threads that check sums */
	bool small_pages;  /* use the cache even without huge pages */
	/* cpu_cache_close waits until the file is written. Otherwise the file is written
	 * at low priority, and closing stops that. */
	bool waits;
};

/* Open the cache and map this model's file, if there is one. Never NULL. Without a
 * folder, or without huge pages, the cache finds and keeps nothing, and the note says
 * why. */
struct cpu_cache *cpu_cache_open(const struct cpu_cache_opts *o);

/* Names a weight's bytes. i: the number of this request in the load, counted from 0 and
 * rising. what: a hash of all that decides the layout of the bytes. */
struct cpu_cache_id {
	uint64_t i, what;
	size_t n_bytes;
};

/* The bytes, 64-byte aligned, read-only, valid until cpu_cache_close. NULL if absent. */
const void *cpu_cache_find(struct cpu_cache *c, struct cpu_cache_id id);
/* Record bytes that were absent and have been made. p must stay unchanged until
 * cpu_cache_close. */
void cpu_cache_add(struct cpu_cache *c, struct cpu_cache_id id, const void *p);
/* The load is complete. If something was added, write all that was found or added to a
 * new file, which replaces the old one when complete. */
void cpu_cache_keep(struct cpu_cache *c);
/* A line of text about what was found and what will be written. */
const char *cpu_cache_note(const struct cpu_cache *c);
void cpu_cache_close(struct cpu_cache *c);

/* Checksum of n bytes, computed by the pool (NULL: by the caller). It is a hash, not
 * cryptographic. Changing any single word always changes it. */
uint64_t cpu_cache_sum(struct pool *pool, const void *p, size_t n);
