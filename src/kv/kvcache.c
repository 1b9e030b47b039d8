/* SPDX-License-Identifier: Apache-2.0
 *
 * Paged KV cache: the bookkeeping.
 *
 * A published page is found by (prefix before it, its P tokens). The prefix is a serial
 * number, given out once when a page is published, and not a hash of the tokens. Page 0
 * of a prompt follows KVCACHE_ROOT, page 1 follows the serial of page 0, and so on. A
 * lookup compares serial and tokens. By induction a hit holds exactly the wanted tokens
 * from the start of the prompt. Hashes only choose the bucket, so a collision never
 * serves foreign keys and values. A serial is never used again. When a page is evicted,
 * the pages that followed it can no longer be found, and age out.
 *
 *            take                    publish
 *     FREE ────────► HELD (private) ─────────► HELD (published) ◄──┐
 *      ▲              │ release                  │ release, keep    │ hold (found)
 *      ├──────────────┘                          ▼                  │
 *      └───────────────────────────────────── KEPT (in LRU order) ──┘
 *                take, when nothing is free
 *
 * Kept pages are in one list, oldest first. A sequence releases its pages last to first.
 * So a prompt's last pages are evicted before its first pages, without which the last
 * ones cannot be found.
 */
#include "kv/kvcache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

#define NONE (-1)

struct kv_page {
	int32_t refs;
	int32_t older, newer;  /* KEPT: neighbours in the LRU list */
	int32_t bucket_next;   /* published: next page in the hash bucket */
	uint32_t bucket;       /* published: index of its hash bucket */
	bool is_published;
	kvcache_prefix before, after;
};

struct kvcache {
	int n_pages, page_size;
	bool keep;
	struct kv_page *pages;
	int32_t *tokens;   /* (n_pages, P): tokens of each page */
	int32_t *free_ids; /* stack of the numbers of free pages */
	int n_free, n_kept;
	int32_t oldest, newest; /* ends of the list of KEPT pages */
	int32_t *buckets;
	uint32_t bucket_mask;
	kvcache_prefix last_serial;
	/* found: the page that was found last; stride: its number less that of the page found
	 * before. Pages that were taken one after the other mostly are neighbours. */
	int32_t found, stride;
};

enum status kvcache_create(int n_pages, int page_size, bool keep,
			   struct kvcache **out)
{
	assert(n_pages > 0 && page_size > 0);
	uint32_t n_buckets = 16;
	while (n_buckets < (uint32_t)n_pages && n_buckets < 1u << 30)
		n_buckets *= 2;
	struct kvcache *kv = xcalloc(1, sizeof *kv);
	kv->pages = calloc((size_t)n_pages, sizeof *kv->pages);
	kv->tokens = calloc((size_t)n_pages, sizeof *kv->tokens * (size_t)page_size);
	kv->free_ids = calloc((size_t)n_pages, sizeof *kv->free_ids);
	kv->buckets = calloc(n_buckets, sizeof *kv->buckets);
	if (!kv->pages || !kv->tokens || !kv->free_ids || !kv->buckets) {
		kvcache_destroy(kv);
		return E_NOMEM;
	}
	kv->n_pages = n_pages;
	kv->page_size = page_size;
	kv->keep = keep;
	kv->oldest = kv->newest = NONE;
	kv->bucket_mask = n_buckets - 1;
	for (uint32_t i = 0; i < n_buckets; i++)
		kv->buckets[i] = NONE;
	/* Page 0 is on top of the stack, so that a new cache fills from the front. */
	for (int i = 0; i < n_pages; i++)
		kv->free_ids[kv->n_free++] = n_pages - 1 - i;
	*out = kv;
	return OK;
}

void kvcache_destroy(struct kvcache *kv)
{
	if (!kv)
		return;
	free(kv->pages);
	free(kv->tokens);
	free(kv->free_ids);
	free(kv->buckets);
	free(kv);
}

kvcache_prefix kvcache_new_root(struct kvcache *kv)
{
	return ++kv->last_serial;
}

int kvcache_page_size(const struct kvcache *kv)
{
	return kv->page_size;
}

bool kvcache_keeps(const struct kvcache *kv)
{
	return kv->keep;
}

int kvcache_total(const struct kvcache *kv)
{
	return kv->n_pages;
}

int kvcache_available(const struct kvcache *kv)
{
	return kv->n_free + kv->n_kept;
}

static struct kv_page *page_at(const struct kvcache *kv, int32_t page)
{
	assert(page >= 0 && page < kv->n_pages);
	return &kv->pages[page];
}

int32_t *kvcache_tokens(struct kvcache *kv, int32_t page)
{
	page_at(kv, page);
	return kv->tokens + (size_t)page * (size_t)kv->page_size;
}

/* --- the list of kept pages -------------------------------------------- */

static void kept_push(struct kvcache *kv, int32_t page)
{
	struct kv_page *p = page_at(kv, page);
	p->older = kv->newest;
	p->newer = NONE;
	if (kv->newest != NONE)
		kv->pages[kv->newest].newer = page;
	else
		kv->oldest = page;
	kv->newest = page;
	kv->n_kept++;
}

static void kept_remove(struct kvcache *kv, int32_t page)
{
	struct kv_page *p = page_at(kv, page);
	if (p->older != NONE)
		kv->pages[p->older].newer = p->newer;
	else
		kv->oldest = p->newer;
	if (p->newer != NONE)
		kv->pages[p->newer].older = p->older;
	else
		kv->newest = p->older;
	kv->n_kept--;
}

/* --- the table of published pages --------------------------------------- */

static uint32_t bucket_of(const struct kvcache *kv, kvcache_prefix before,
			  const int32_t *tokens)
{
	size_t n = sizeof *tokens * (size_t)kv->page_size;
	return (uint32_t)hash_bytes(before, tokens, n) & kv->bucket_mask;
}

static bool is_page(const struct kvcache *kv, int32_t i, kvcache_prefix before,
		    const int32_t *tokens)
{
	size_t n = (size_t)kv->page_size;
	return kv->pages[i].before == before &&
	       memcmp(kv->tokens + (size_t)i * n, tokens, n * sizeof *tokens) == 0;
}

static int32_t bucket_find(const struct kvcache *kv, uint32_t bucket,
			   kvcache_prefix before, const int32_t *tokens)
{
	int32_t i = kv->buckets[bucket];
	while (i != NONE && !is_page(kv, i, before, tokens))
		i = kv->pages[i].bucket_next;
	return i;
}

/* Tries the neighbour of the page that was found last, whose memory is near; NONE: it is not
 * the wanted page. At most one page is published for a prefix and its tokens, so the table
 * would say the same. */
static int32_t neighbour_find(const struct kvcache *kv, kvcache_prefix before,
			      const int32_t *tokens)
{
	int32_t i = kv->found + kv->stride;
	bool is_near = kv->stride == 1 || kv->stride == -1;
	return is_near && i >= 0 && i < kv->n_pages && kv->pages[i].is_published &&
	       is_page(kv, i, before, tokens) ? i : NONE;
}

static void unpublish(struct kvcache *kv, int32_t page)
{
	struct kv_page *p = page_at(kv, page);
	int32_t *link = &kv->buckets[p->bucket];
	while (*link != page)
		link = &kv->pages[*link].bucket_next;
	*link = p->bucket_next;
	p->is_published = false;
}

int32_t kvcache_find(struct kvcache *kv, kvcache_prefix before, const int32_t *tokens,
		     kvcache_prefix *out_after)
{
	int32_t i = neighbour_find(kv, before, tokens);
	if (i == NONE)
		i = bucket_find(kv, bucket_of(kv, before, tokens), before, tokens);
	if (i == NONE)
		return NONE;
	kv->stride = i - kv->found;
	kv->found = i;
	*out_after = kv->pages[i].after;
	return i;
}

kvcache_prefix kvcache_publish(struct kvcache *kv, int32_t page,
			       kvcache_prefix before)
{
	struct kv_page *p = page_at(kv, page);
	assert(p->refs > 0 && !p->is_published);
	if (!kv->keep)
		return KVCACHE_ROOT;
	const int32_t *tokens = kvcache_tokens(kv, page);
	uint32_t bucket = bucket_of(kv, before, tokens);
	/* Two sequences may have computed the same prompt at the same time. The first one
	 * to publish the page names the prefix for both. */
	int32_t twin = bucket_find(kv, bucket, before, tokens);
	if (twin != NONE)
		return kv->pages[twin].after;
	p->is_published = true;
	p->before = before;
	p->after = ++kv->last_serial;
	p->bucket = bucket;
	p->bucket_next = kv->buckets[bucket];
	kv->buckets[bucket] = page;
	return p->after;
}

/* --- holding ------------------------------------------------------------- */

int32_t kvcache_alloc_page(struct kvcache *kv)
{
	int32_t page;
	assert(kvcache_available(kv) > 0);
	if (kv->n_free > 0) {
		page = kv->free_ids[--kv->n_free];
	} else {
		page = kv->oldest;
		kept_remove(kv, page);
		unpublish(kv, page);
	}
	assert(kv->pages[page].refs == 0 && !kv->pages[page].is_published);
	kv->pages[page].refs = 1;
	return page;
}

void kvcache_hold(struct kvcache *kv, int32_t page)
{
	struct kv_page *p = page_at(kv, page);
	if (p->refs == 0) {
		assert(p->is_published);
		kept_remove(kv, page);
	}
	p->refs++;
}

void kvcache_release(struct kvcache *kv, int32_t page)
{
	struct kv_page *p = page_at(kv, page);
	assert(p->refs > 0);
	if (--p->refs > 0)
		return;
	if (p->is_published)
		kept_push(kv, page);
	else
		kv->free_ids[kv->n_free++] = page;
}

kvcache_prefix kvcache_name(const struct kvcache *kv, int32_t page)
{
	const struct kv_page *p = page_at(kv, page);
	return p->is_published ? p->after : KVCACHE_ROOT;
}

int kvcache_holders(const struct kvcache *kv, int32_t page)
{
	return page_at(kv, page)->refs;
}

bool kvcache_is_private(const struct kvcache *kv, int32_t page)
{
	const struct kv_page *p = page_at(kv, page);
	return p->refs == 1 && !p->is_published;
}
