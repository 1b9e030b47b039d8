/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that dies together: everything one request or one template rendering
 * needs. Thread: one at a time.
 */
#pragma once
#include "base/buf.h"

struct arena_block;
struct arena {
	struct arena_block *head;
	size_t n_bytes; /* handed out so far */
	size_t limit;   /* 0: none; else arena_try_alloc refuses above it */
};

void arena_init(struct arena *a, size_t limit_bytes);
void arena_deinit(struct arena *a);
/* 16-byte aligned, zeroed, never NULL; ignores the limit. */
void *arena_alloc(struct arena *a, size_t n);
/* The same, or NULL where the limit would be passed. */
void *arena_try_alloc(struct arena *a, size_t n);
/* Copies, terminated. */
char *arena_strdup(struct arena *a, const char *s);
struct str arena_str(struct arena *a, struct str s);
