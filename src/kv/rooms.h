/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory for what crosses between the disk and the device: a few rooms of one size, taken
 * and given back again and again. New memory would have to be filled with zeros each time.
 * Where the device copies from memory of its own kind faster, the rooms are of that kind.
 * Thread: any, for take and give.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Where pinned memory comes from. alloc NULL: there is none; or it returns NULL. */
struct rooms_source {
	void *(*alloc)(void *ctx, size_t n_bytes);
	void (*free)(void *ctx, void *p);
	void *ctx;
};

struct rooms {
	char *first;  /* aligned to KVFILE_ALIGN, as each room is; NULL: there are none */
	void *memory; /* as it was given */
	size_t room_bytes;
	int n;
	bool is_pinned;
	atomic_uint taken; /* a bit for each */
};

/* n (at most 32) rooms of at least room_bytes. Where the source has nothing they are plain
 * memory, which stays virtual until it is used. */
void rooms_create(struct rooms *r, const struct rooms_source *from, int n, size_t room_bytes);
/* All rooms have been given back. The source is still there. */
void rooms_destroy(struct rooms *r, const struct rooms_source *from);
/* NULL: all are taken, or are too small. */
void *rooms_take(struct rooms *r, size_t n_bytes);
/* False: p is none of them. */
bool rooms_give(struct rooms *r, const void *p);
