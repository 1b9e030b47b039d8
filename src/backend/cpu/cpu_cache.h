/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as the CPU computes with them (cpu_panels.h), kept in a file: a later start maps
 * them instead of packing them anew. That saves the work and, more than that, the memory:
 * the file's pages are the page cache's and the processes' that map them at once.
 *
 * One file for a model's folder and an instruction set: FOLDER-HASH-ISA.halod-weights, all of it
 * in the machine's own byte order:
 *   struct head             cpu_cache.c
 *   key (key_bytes)         text: version, instruction set, model files with size and time
 *   entries (n_entries)     struct entry, in the order of loading; from a multiple of 8
 *   bytes of the weights    from a multiple of 2 MiB, each from a multiple of 64
 * A file of another key is one of another model and is replaced. Whoever takes bytes out
 * of it has their sum checked, so that a file cut short or left half written by a crash
 * costs a start its time, never its numbers; those who know what they asked for should
 * still compare some of it (cpu_weight.c does), since sums do not tell of a packing that
 * has changed since.
 *
 * Whoever truncates it while it is mapped ends the process with SIGBUS, as with a model's
 * own files; deleting it does no harm.
 *
 * Only where a mapped file comes in huge pages (Linux 6.16 with ext4, 5.18 with XFS): in
 * small ones a token is a quarter slower, as long as the process lives.
 *
 * Thread: one; the file is written by a thread of its own.
 */
#pragma once
#include "base/pool.h"
#include "model/model.h"

#define CPU_CACHE_SUFFIX ".halod-weights"

struct cpu_cache;

struct cpu_cache_opts {
	const char *dir;  /* made where it is missing, its parent is not */
	const char *isa;
	const struct model *model;
	struct pool *pool; /* what checks sums */
	bool small_pages;  /* use it without huge pages, too */
	/* cpu_cache_close waits until the file is written. Else it is written with the time
	 * that others leave, and closing ends that. */
	bool waits;
};

/* What is there for this model is mapped. Never NULL: without a folder, or where huge pages
 * are missing, nothing will be found nor kept, and the note says why. */
struct cpu_cache *cpu_cache_open(const struct cpu_cache_opts *o);

/* Which bytes: the i-th that this load asks for, counted from 0, rising; `what` is a hash
 * of all that decides how they lie. */
struct cpu_cache_id {
	uint64_t i, what;
	size_t n_bytes;
};

/* The bytes, aligned to 64, read-only, until cpu_cache_close. NULL: not there. */
const void *cpu_cache_find(struct cpu_cache *c, struct cpu_cache_id id);
/* What was not there, and was made: p stays as it is until cpu_cache_close. */
void cpu_cache_add(struct cpu_cache *c, struct cpu_cache_id id, const void *p);
/* The load is done: where something was added, all that was found and added is written to
 * a new file, which takes the other's name when it is whole. */
void cpu_cache_keep(struct cpu_cache *c);
/* One line about what was found and what will be. */
const char *cpu_cache_note(const struct cpu_cache *c);
void cpu_cache_close(struct cpu_cache *c);

/* Of n bytes, by the pool (NULL: by the caller); a hash, not a secret. A word changed
 * always changes it. */
uint64_t cpu_cache_sum(struct pool *pool, const void *p, size_t n);
