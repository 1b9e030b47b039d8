/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory for what crosses between the disk and the device: a few buffers of one size, taken
 * and given back again and again. New memory would have to be filled with zeros each time.
 * Where the device copies from memory of its own kind faster, the buffers are of that kind.
 * Thread: any, for take and give.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Where pinned memory comes from. alloc NULL: there is none; or it returns NULL. */
struct staging_source {
	void *(*alloc)(void *ctx, size_t n_bytes);
	void (*free)(void *ctx, void *p);
	void *ctx;
};

struct staging {
	char *first;  /* aligned to KVFILE_ALIGN, as each buffer is; NULL: there are none */
	void *memory; /* as it was given */
	size_t each_bytes;
	int n;
	bool is_pinned;
	atomic_uint taken; /* a bit for each */
};

/* n (at most 32) buffers of at least each_bytes. Where the source has nothing they are plain
 * memory, which stays virtual until it is used. */
void staging_create(struct staging *r, const struct staging_source *from, int n, size_t each_bytes);
/* All buffers have been given back. The source is still there. */
void staging_destroy(struct staging *r, const struct staging_source *from);
/* NULL: all are taken, or are too small. */
void *staging_take(struct staging *r, size_t n_bytes);
/* False: p is none of them. */
bool staging_give(struct staging *r, const void *p);
