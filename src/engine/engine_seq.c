/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences: page tables over the KV cache.
 *
 * Position p of a sequence lies in pages[p / P] at offset p % P. A page may be held
 * by several sequences. Full pages are only read. A partial page has one writer,
 * the sequence that took it; forks of that sequence borrow the page: they read the
 * offsets below their own length, which the writer has passed and leaves alone, and
 * take a copy when they want to write on. So a fork costs nothing until then, and
 * the sequence that was forked never needs a page it had not reserved.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_priv.h"

static int pages_for(const struct engine *e, int n_tok)
{
	int size = kvcache_page_size(e->kv);
	return n_tok / size + (n_tok % size != 0);
}

static struct engine_seq *seq_alloc(const struct engine *e)
{
	size_t n = sizeof(struct engine_seq) +
		   sizeof(int32_t) * (size_t)e->max_pages_per_seq;
	return xcalloc(1, n);
}

struct engine_seq *engine_seq_create(struct engine *e, const int32_t *prompt,
				     int n, int *out_n_cached)
{
	int size = kvcache_page_size(e->kv);
	struct engine_seq *s = seq_alloc(e);
	/* The last token always runs: its logits are wanted. */
	while (s->length + size < n && s->n_pages < e->max_pages_per_seq) {
		int32_t page = kvcache_find(e->kv, s->prefix, prompt + s->length,
					    &s->prefix);
		if (page < 0)
			break;
		kvcache_hold(e->kv, page);
		s->pages[s->n_pages++] = page;
		s->length += size;
	}
	e->stats.prefix_query_tok += n;
	e->stats.prefix_hit_tok += s->length;
	*out_n_cached = s->length;
	return s;
}

int engine_seq_length(const struct engine_seq *s)
{
	return s->length;
}

int engine_seq_capacity(const struct engine *e, const struct engine_seq *s)
{
	if (s->tail_is_borrowed)
		return s->length;
	return s->n_pages * kvcache_page_size(e->kv);
}

/* Replace the borrowed tail by a copy of it. There is a page to be had. */
static enum status copy_tail(struct engine *e, struct engine_seq *s)
{
	int32_t *tail = &s->pages[s->n_pages - 1];
	int32_t copy = kvcache_take(e->kv);
	if (e->graph.copy_page) {
		enum status st = e->graph.copy_page(e->graph.ctx, copy, *tail);
		if (st != OK) {
			kvcache_release(e->kv, copy);
			return st;
		}
	}
	memcpy(kvcache_tokens(e->kv, copy), kvcache_tokens(e->kv, *tail),
	       sizeof(int32_t) * (size_t)kvcache_page_size(e->kv));
	kvcache_release(e->kv, *tail);
	*tail = copy;
	return OK;
}

enum status engine_seq_reserve(struct engine *e, struct engine_seq *s, int n_tok)
{
	if (n_tok < 0)
		return E_INVAL;
	if (n_tok > e->n_ctx - s->length)
		return E_CTX_LEN;
	if (n_tok == 0)
		return OK;
	int more = MAX(0, pages_for(e, s->length + n_tok) - s->n_pages);
	/* A borrowed page whose other holders are gone is ours to write, unless its
	 * writer filled and published it. */
	bool copies = s->tail_is_borrowed &&
		      !kvcache_is_private(e->kv, s->pages[s->n_pages - 1]);
	if (more + copies > kvcache_available(e->kv))
		return E_NO_PAGES;
	if (copies) {
		enum status st = copy_tail(e, s);
		if (st != OK)
			return st;
	}
	s->tail_is_borrowed = false;
	for (int i = 0; i < more; i++)
		s->pages[s->n_pages++] = kvcache_take(e->kv);
	return OK;
}

enum status engine_seq_fork(struct engine *e, const struct engine_seq *s,
			    struct engine_seq **out)
{
	struct engine_seq *fork = seq_alloc(e);
	fork->length = s->length;
	fork->n_pages = pages_for(e, s->length);
	fork->tail_is_borrowed = s->length % kvcache_page_size(e->kv) != 0;
	fork->prefix = s->prefix;
	for (int i = 0; i < fork->n_pages; i++) {
		fork->pages[i] = s->pages[i];
		kvcache_hold(e->kv, s->pages[i]);
	}
	*out = fork;
	return OK;
}

void engine_seq_append(struct engine *e, struct engine_seq *s,
		       const int32_t *tokens, int n)
{
	int size = kvcache_page_size(e->kv);
	assert(s->length + n <= engine_seq_capacity(e, s));
	for (int i = 0; i < n; i++) {
		int32_t page = s->pages[s->length / size];
		kvcache_tokens(e->kv, page)[s->length % size] = tokens[i];
		if (++s->length % size == 0)
			s->prefix = kvcache_publish(e->kv, page, s->prefix);
	}
}

void engine_seq_destroy(struct engine *e, struct engine_seq *s)
{
	if (!s)
		return;
	/* Last to first: see kvcache.c on the order of eviction. */
	for (int i = s->n_pages - 1; i >= 0; i--)
		kvcache_release(e->kv, s->pages[i]);
	free(s);
}
