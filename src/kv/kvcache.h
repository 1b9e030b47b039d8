/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds which KV page: reference counts, a free list, and the prefix cache. This is
 * bookkeeping only; keys and values lie in device memory, indexed by page number. Thread:
 * engine.
 *
 * Invariants: a page is free, held (refs > 0), or kept (refs 0, published, found by its
 * tokens). A published page is full and is never written again. P is the number of tokens
 * of a page.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct kvcache;

/* Identifies a prefix of tokens that ends at a page boundary. KVCACHE_ROOT is the empty
 * prefix. kvcache_publish gives out the others and never repeats one. */
typedef uint64_t kvcache_prefix;
#define KVCACHE_ROOT ((kvcache_prefix)0)

/* keep: a published page stays findable after its last release, until its memory is
 * needed. E_NOMEM. */
enum status kvcache_create(int n_pages, int page_size, bool keep,
			   struct kvcache **out) MUST_USE;
void kvcache_destroy(struct kvcache *kv); /* NULL is fine */
/* A new empty prefix, never given out before. Pages that are published behind it are found
 * behind it only. */
kvcache_prefix kvcache_new_root(struct kvcache *kv);
int kvcache_page_size(const struct kvcache *kv);
bool kvcache_keeps(const struct kvcache *kv); /* the `keep` that kvcache_create got */
int kvcache_total(const struct kvcache *kv);
/* Number of pages that kvcache_alloc_page can give: free ones and kept ones. */
int kvcache_available(const struct kvcache *kv);

/* A page for the caller to write, held once. If none is free, the least recently used
 * kept page is evicted. Call only while kvcache_available() > 0. */
int32_t kvcache_alloc_page(struct kvcache *kv);
void kvcache_hold(struct kvcache *kv, int32_t page);
void kvcache_release(struct kvcache *kv, int32_t page);
int kvcache_holders(const struct kvcache *kv, int32_t page);
/* True if the page is held once and not published: its holder may write it. */
bool kvcache_is_private(const struct kvcache *kv, int32_t page);

/* The prefix that ends with the page, if it is published; else KVCACHE_ROOT. */
kvcache_prefix kvcache_name(const struct kvcache *kv, int32_t page);

/* The P tokens whose keys and values are in the page, as its writer recorded them. */
int32_t *kvcache_tokens(struct kvcache *kv, int32_t page);

/* The page that continues prefix `before` with these P tokens, or -1. The page is not
 * held yet. *out_after is the prefix that ends with the page. */
int32_t kvcache_find(struct kvcache *kv, kvcache_prefix before,
		     const int32_t *tokens, kvcache_prefix *out_after);
/* Make a full, held page findable as the continuation of `before`. If a page with the
 * same tokens is already published there, that page stays the findable one. Returns the
 * prefix that ends with the page. Without `keep` nothing is published, and the result is
 * KVCACHE_ROOT. */
kvcache_prefix kvcache_publish(struct kvcache *kv, int32_t page,
			       kvcache_prefix before);
