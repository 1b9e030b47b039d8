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
 *
 * A recurrent state lies in one slot. A step reads it from `state` and leaves it in
 * `next`: the same where the sequence alone holds the slot, a slot taken with the room
 * for the step where a fork or a checkpoint shares it. So forks and resumed checkpoints
 * are never copied either. On the way through a slice the step saves the state at the
 * last end of a page into one more slot, if one is to be had, as a checkpoint. Of the
 * checkpoints a sequence makes, those stay that are checkpoint_every tokens apart; the
 * newest of the others stays until the next.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

static int pages_for(const struct engine *e, int n_tok)
{
	int size = kvcache_page_size(e->kv);
	return n_tok / size + (n_tok % size != 0);
}

static struct engine_seq *seq_alloc(const struct engine *e)
{
	size_t n = sizeof(struct engine_seq) +
		   sizeof(int32_t) * (size_t)e->max_pages_per_seq;
	struct engine_seq *s = xcalloc(1, n);
	s->state = s->next = s->save = -1;
	return s;
}

/* The prefix that is known goes to a checkpoint: let go of the pages after the last
 * one, and start from its state. */
static void cut_to_checkpoint(struct engine *e, struct engine_seq *s, int n_pages,
			      kvcache_prefix prefix, int32_t state)
{
	while (s->n_pages > n_pages)
		kvcache_release(e->kv, s->pages[--s->n_pages]);
	s->length = n_pages * kvcache_page_size(e->kv);
	s->kept_length = s->length;
	s->prefix = prefix;
	s->state = s->next = state;
	if (state >= 0) {
		states_hold(e->states, state);
		states_touch(e->states, state);
	}
}

struct engine_seq *engine_seq_create(struct engine *e, const int32_t *prompt,
				     int n, int *out_n_cached)
{
	return engine_seq_create_in(e, &(struct engine_prompt){.tokens = prompt, .n = n},
				    out_n_cached);
}

struct engine_seq *engine_seq_create_in(struct engine *e, const struct engine_prompt *p,
					int *out_n_cached)
{
	int size = kvcache_page_size(e->kv), n = p->n;
	struct engine_seq *s = seq_alloc(e);
	s->prefix = spaces_root(e->spaces, p->space);
	kvcache_prefix known = s->prefix; /* where the last checkpoint is */
	int n_known = 0;
	int32_t state = -1;
	/* The last token always runs: its logits are wanted. */
	while (s->length + size < n && s->n_pages < e->max_pages_per_seq) {
		int32_t page = kvcache_find(e->kv, s->prefix, p->tokens + s->length,
					    &s->prefix);
		if (page < 0)
			break;
		kvcache_hold(e->kv, page);
		s->pages[s->n_pages++] = page;
		s->length += size;
		int32_t found = e->states ? states_find(e->states, s->prefix) : -1;
		if (found >= 0) {
			known = s->prefix;
			n_known = s->n_pages;
			state = found;
		}
	}
	if (e->states)
		cut_to_checkpoint(e, s, n_known, known, state);
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
	int32_t copy = kvcache_alloc_page(e->kv);
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

/* Must a step leave the state in another slot than it finds it in? */
static bool needs_slot(const struct engine *e, const struct engine_seq *s)
{
	return e->states && s->next == s->state &&
	       (s->state < 0 || !states_is_private(e->states, s->state));
}

bool engine_seq_has_slot(struct engine *e, struct engine_seq *s)
{
	if (needs_slot(e, s))
		s->next = states_alloc(e->states);
	return !e->states || s->next >= 0;
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
	bool moves = needs_slot(e, s);
	if (moves && states_available(e->states) == 0)
		return E_NO_PAGES;
	if (copies) {
		enum status st = copy_tail(e, s);
		if (st != OK)
			return st;
	}
	s->tail_is_borrowed = false;
	if (moves)
		s->next = states_alloc(e->states);
	for (int i = 0; i < more; i++)
		s->pages[s->n_pages++] = kvcache_alloc_page(e->kv);
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
	fork->state = fork->next = s->state;
	fork->is_lost = s->is_lost;
	fork->checkpoint_length = fork->kept_length = s->length;
	if (fork->state >= 0)
		states_hold(e->states, fork->state);
	for (int i = 0; i < fork->n_pages; i++) {
		fork->pages[i] = s->pages[i];
		kvcache_hold(e->kv, s->pages[i]);
	}
	*out = fork;
	return OK;
}

void engine_seq_plan_states(struct engine *e, struct engine_seq *s, int n)
{
	int size = kvcache_page_size(e->kv), end = (s->length + n) / size * size;
	bool is_prefill = n > 1;
	s->save = -1;
	s->save_length = end;
	if (end <= s->length || !kvcache_keeps(e->kv))
		return;
	/* A decoding sequence ends a page every few tokens: only as often as one stays.
	 * What it made last of its prompt stays too. */
	if (!is_prefill && s->checkpoint_length > s->kept_length) {
		s->kept_length = s->checkpoint_length;
		s->checkpoint = KVCACHE_ROOT;
	}
	if (is_prefill || end - s->kept_length >= e->checkpoint_every)
		s->save = states_alloc(e->states);
}

void engine_seq_end_states(struct engine *e, struct engine_seq *s, bool has_run)
{
	if (!has_run) {
		states_release(e->states, s->save);
		s->save = -1;
		s->is_lost |= s->next == s->state;
		return;
	}
	if (s->next != s->state)
		states_release(e->states, s->state);
	s->state = s->next;
}

/* The sequence has just reached what s->save is the state of. */
static void keep_checkpoint(struct engine *e, struct engine_seq *s)
{
	bool stays = s->checkpoint_length - s->kept_length >= e->checkpoint_every;
	if (stays)
		s->kept_length = s->checkpoint_length;
	else if (s->checkpoint != KVCACHE_ROOT)
		states_drop(e->states, s->checkpoint);
	s->checkpoint = KVCACHE_ROOT;
	s->checkpoint_length = s->length;
	if (states_find(e->states, s->prefix) < 0) { /* else it is another's */
		states_keep(e->states, s->save, s->prefix);
		s->checkpoint = s->prefix;
	}
	states_release(e->states, s->save);
	s->save = -1;
}

void engine_seq_append(struct engine *e, struct engine_seq *s,
		       const int32_t *tokens, int n)
{
	int size = kvcache_page_size(e->kv);
	assert(s->length + n <= engine_seq_capacity(e, s));
	for (int i = 0; i < n; i++) {
		int32_t page = s->pages[s->length / size];
		kvcache_tokens(e->kv, page)[s->length % size] = tokens[i];
		if (++s->length % size != 0)
			continue;
		s->prefix = kvcache_publish(e->kv, page, s->prefix);
		if (s->save >= 0 && s->length == s->save_length)
			keep_checkpoint(e, s);
	}
}

void engine_seq_destroy(struct engine *e, struct engine_seq *s)
{
	if (!s)
		return;
	/* Last to first: see kvcache.c on the order of eviction. */
	for (int i = s->n_pages - 1; i >= 0; i--)
		kvcache_release(e->kv, s->pages[i]);
	if (e->states && s->next != s->state)
		states_release(e->states, s->next);
	if (e->states)
		states_release(e->states, s->state);
	free(s);
}
