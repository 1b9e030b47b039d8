/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of a model's routed experts, in the form that a backend computes with. All bytes of an
 * expert are contiguous, so that one read gets them. In the machine's byte order:
 *
 *   struct store_head     expert_store.c
 *   key (key_bytes)       text that says what the contents depend on
 *   entries               struct expert_entry (n), from a multiple of 8
 *   experts               each from a multiple of EXPERT_ALIGN, filled up with zeros
 *
 * A file is made under another name, and renamed when it is complete and on the disk.
 * expert_reader.h checks the sum of each expert that it reads. So a file that was cut short or
 * changed gives errors, never wrong numbers. Thread: one.
 */
#pragma once
#include "base/buf.h"
#include "experts/expert_reader.h"

#define EXPERT_STORE_SUFFIX ".halod-experts"
enum { EXPERT_ALIGN = EXPERT_READ_ALIGN };

struct expert_entry {
	uint64_t at;      /* offset in the file */
	uint64_t n_bytes; /* multiple of EXPERT_ALIGN; 0: there is no such expert */
	uint64_t sum;     /* expert_reader_sum of all n_bytes */
};

struct expert_store {
	char *path;
	int fd;         /* -1: closed */
	bool is_direct; /* reads by fd bypass the page cache */
	int32_t n;
	struct expert_entry *entries; /* (n) */
};

/* E_MISSING: there is no such file. E_FORMAT, with the reason: it is damaged, or has another
 * key or number of experts. E_IO. */
enum status expert_store_open(const char *path, struct str key, int32_t n,
			      struct expert_store *out, struct fail *fail) MUST_USE;
void expert_store_close(struct expert_store *s);
/* A number that differs if the experts of two stores differ. Files that are kept beside a store
 * contain it. */
uint64_t expert_store_key(const struct expert_store *s);

struct expert_store_plan {
	const char *path;
	struct str key;
	int32_t n;
	const uint64_t *n_bytes; /* (n) multiples of EXPERT_ALIGN */
	/* Write expert i to out, which is n_bytes[i] zeros. */
	enum status (*fill)(void *ctx, int32_t i, uint8_t *out, struct fail *fail);
	void *ctx;
};
/* Makes the file, and replaces an older one. E_IO: the disk is full or cannot be written, or
 * another process is making the file now. Other errors are those of `fill`. */
enum status expert_store_make(const struct expert_store_plan *p, struct fail *fail) MUST_USE;
/* Replace the small file at path, which is kept beside a store. False: it cannot be written;
 * errno says why. */
bool expert_store_keep(const char *path, struct str bytes);
