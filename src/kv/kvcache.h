/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds which KV page: reference counts, a free list, and the prefix cache.
 * Bookkeeping only; the keys and values lie in device memory under the page's
 * number. Thread: engine.
 *
 * Invariants: a page is free, held (refs > 0) or kept (refs 0, published, found
 * by its tokens). A published page is full and never written again.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct kvcache;

/* Names a prefix of tokens that ends at a page's end. KVCACHE_ROOT is the empty
 * prefix; others are handed out by kvcache_publish and never used twice. */
typedef uint64_t kvcache_prefix;
#define KVCACHE_ROOT ((kvcache_prefix)0)

/* keep: published pages stay findable after the last holder let go, until their
 * room is needed. E_NOMEM. */
enum status kvcache_create(int n_pages, int page_size, bool keep,
			   struct kvcache **out) MUST_USE;
void kvcache_destroy(struct kvcache *kv); /* NULL is fine */
/* An empty prefix of its own: what is published behind it is found behind it only. Never
 * given out before. */
kvcache_prefix kvcache_new_root(struct kvcache *kv);
int kvcache_page_size(const struct kvcache *kv);
bool kvcache_keeps(const struct kvcache *kv); /* as it was created */
int kvcache_total(const struct kvcache *kv);
/* Pages that kvcache_alloc_page can give: free ones and kept ones. */
int kvcache_available(const struct kvcache *kv);

/* A page for the caller to write, held once. The least recently used kept page
 * goes when none is free. Only while kvcache_available() > 0. */
int32_t kvcache_alloc_page(struct kvcache *kv);
void kvcache_hold(struct kvcache *kv, int32_t page);
void kvcache_release(struct kvcache *kv, int32_t page);
/* Held once and not published: its one holder may write it. */
bool kvcache_is_private(const struct kvcache *kv, int32_t page);

/* The tokens (P) whose keys and values are in the page, as its writer noted. */
int32_t *kvcache_tokens(struct kvcache *kv, int32_t page);

/* The page that continues prefix `before` with tokens (P), or -1. It is not yet
 * held. *out_after names the longer prefix. */
int32_t kvcache_find(const struct kvcache *kv, kvcache_prefix before,
		     const int32_t *tokens, kvcache_prefix *out_after);
/* A held page is full: make it findable as what continues `before`, unless
 * another page with the same tokens is already. Returns the longer prefix. Without
 * `keep`, pages are not published and the result is KVCACHE_ROOT. */
kvcache_prefix kvcache_publish(struct kvcache *kv, int32_t page,
			       kvcache_prefix before);
