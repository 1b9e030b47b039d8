/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a model's routed experts, in the form that a backend computes with. What one
 * expert needs is contiguous, so that one read brings it. In the machine's byte order:
 *
 *   struct store_head     expert_store.c
 *   key (key_bytes)       text that says what the contents depend on
 *   entries               struct expert_entry (n), from a multiple of 8
 *   experts               each from a multiple of EXPERT_ALIGN, with zeros behind it
 *
 * A file is made under another name and renamed when it is whole and on the disk. The
 * sum of each expert is checked by whoever reads it (expert_reader.h). So a file that was
 * cut short or changed gives errors, never wrong numbers. Thread: one.
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
	bool is_direct; /* reads by fd pass by the page cache */
	int32_t n;
	struct expert_entry *entries; /* (n) */
};

/* E_MISSING: there is no such file. E_FORMAT, with the reason: it is damaged, or of another
 * key or number of experts. E_IO. */
enum status expert_store_open(const char *path, struct str key, int32_t n,
			      struct expert_store *out, struct fail *fail) MUST_USE;
void expert_store_close(struct expert_store *s);
/* A number that differs where the experts of two stores differ. Files that are kept beside
 * a store carry it. */
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
/* Makes the file, in place of one that is there. E_IO: the disk is full or cannot be
 * written, or another process is making the file now. What fill returns. */
enum status expert_store_make(const struct expert_store_plan *p, struct fail *fail) MUST_USE;
/* Replace the small file at path, which is kept beside a store. False: it cannot be written;
 * errno says why. */
bool expert_store_keep(const char *path, struct str bytes);
