/* SPDX-License-Identifier: Apache-2.0
 *
 * A region allocator: all its memory is freed at once. One request or one template
 * rendering uses one arena. Thread: one at a time.
 */
#pragma once
#include "base/buf.h"

struct arena_block;
struct arena {
	struct arena_block *head;
	size_t n_bytes; /* bytes handed out so far */
};

void arena_init(struct arena *a);
void arena_deinit(struct arena *a);
/* Allocate n bytes: 16-byte aligned, zeroed, never NULL. */
void *arena_alloc(struct arena *a, size_t n);
/* The same for sizes that a request chooses. NULL: the system refuses, and the thread's request
 * is over (base/work.h). */
void *arena_try(struct arena *a, size_t n);
/* Both return copies that end in NUL; "" where arena_try would return NULL. */
char *arena_strdup(struct arena *a, const char *s);
struct str arena_str(struct arena *a, struct str s);
