/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences: page tables over the KV cache.
 *
 * Position p of a sequence lies in pages[p / P] at offset p % P. Several sequences may
 * hold a page. Full pages are only read. A partial page has one writer, the sequence
 * that allocated it. Forks of that sequence borrow the page. They read only the offsets
 * below their own length, which the writer has passed. A fork copies the page when it
 * wants to write. So a fork costs nothing at first, and its origin never needs a page
 * that it had not reserved.
 *
 * A recurrent state lies in one slot. A step reads it from `state` and writes it to
 * `next`. The two are the same slot if no fork or checkpoint shares it. Otherwise
 * `next` is another slot, reserved with the pages of the step. So forks and resumed
 * checkpoints copy no state either.
 *
 * A step with drafts reads `state` and saves the state before the first draft token in `next`. It
 * leaves the state behind the last draft token in `ahead`. If all draft tokens were right,
 * `ahead` is the state. If some were, the state in `next` goes on through these: the graph has
 * kept the inputs of its recurrence (engine_graph.replay). So no slot with a wrong draft token in
 * it is ever a checkpoint.
 *
 * Within a slice, the step also saves the state at the last end of a page into one more
 * slot, if one is free. That is a checkpoint.
 *
 *   prompt   |------|------|------|--T--|--E            |  spread, T, E: stay
 *   answer                                 >   >   >   >   each replaces the last
 *
 * Four kinds of checkpoints stay: before the user's last words (T), for users who edit
 * them, unless one stays that is near; at the prompt's end (E), for users who ask again;
 * where a prompt that waits for this one parts from it; and far enough apart over the rest.
 * The newest of the others stays until the next one. At the end of an answer, the next turn
 * resumes there.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_disk.h"
#include "engine/engine_private.h"

#define NEAR_TURN 8 /* a distance so many times shorter than checkpoint_every is near */
#define SPREAD_MAX 4 /* checkpoints that one prompt leaves by their distance */

static int pages_for(const struct engine *e, int n_tok)
{
	int size = kvcache_page_size(e->kv);
	return n_tok / size + (n_tok % size != 0);
}

int32_t engine_new_page(struct engine *e)
{
	int32_t page = kvcache_alloc_page(e->kv);
	if (e->beside)
		e->beside->has_page[page] = false;
	return page;
}

static struct engine_seq *seq_alloc(const struct engine *e)
{
	size_t n = sizeof(struct engine_seq) +
		   sizeof(int32_t) * (size_t)e->max_pages_per_seq;
	struct engine_seq *s = xcalloc(1, n);
	s->state = s->next = s->save = s->ahead = -1;
	s->hidden_step_no = HIDDEN_NONE;
	return s;
}

/* A prompt can resume only at a checkpoint: let go of the pages after the last one, and start
 * from its state. */
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
	s->space = p->space.n ? xstrndup(p->space.p, p->space.n) : NULL;
	s->space_n = p->space.n;
	s->stays_in_memory = p->stays_in_memory;
	s->lora = p->lora;
	s->lora_scale = p->lora_scale;
	s->images = p->images;
	s->n_images = p->n_images;
	s->turn_at = MIN(p->turn_at, n) / size * size;
	s->n_prompt = (n - 1) / size * size;
	s->checkpoint_every = MAX(e->checkpoint_every, n / SPREAD_MAX);
	kvcache_prefix known = s->prefix; /* the prefix that ends at the last checkpoint */
	int n_known = 0;
	int32_t state = -1, *own;
	const int32_t *words = engine_image_words(e, p, &own);
	/* The last token always runs: its logits are wanted. */
	while (s->length + size < n && s->n_pages < e->max_pages_per_seq) {
		int32_t page = kvcache_find(e->kv, s->prefix, words + s->length,
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
	free(own);
	s->n_found = s->length;
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

/* Replace the borrowed tail by a copy of it. The caller knows that a page is available. */
static enum status copy_tail(struct engine *e, struct engine_seq *s)
{
	int32_t *tail = &s->pages[s->n_pages - 1];
	int32_t copy = engine_new_page(e);
	enum status st = e->graph.copy_page ? e->graph.copy_page(e->graph.ctx, copy, *tail) : OK;
	if (st == OK && e->beside)
		st = e->beside->graph.copy_page(e->beside->graph.ctx, copy, *tail);
	if (st != OK) {
		kvcache_release(e->kv, copy);
		return st;
	}
	memcpy(kvcache_tokens(e->kv, copy), kvcache_tokens(e->kv, *tail),
	       sizeof(int32_t) * (size_t)kvcache_page_size(e->kv));
	kvcache_release(e->kv, *tail);
	*tail = copy;
	return OK;
}

/* True if a step must leave the state in another slot than the one that has it now. */
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
	/* What the writer had behind the tokens of s is no longer read. */
	if (s->tail_is_borrowed && e->beside)
		e->beside->has_page[s->pages[s->n_pages - 1]] = false;
	s->tail_is_borrowed = false;
	if (moves)
		s->next = states_alloc(e->states);
	for (int i = 0; i < more; i++)
		s->pages[s->n_pages++] = engine_new_page(e);
	return OK;
}

enum status engine_seq_reserve_draft(struct engine *e, struct engine_seq *s, int n_tok)
{
	enum status st = engine_seq_reserve(e, s, n_tok);
	if (st == OK && e->states && s->ahead < 0) {
		s->ahead = states_alloc(e->states);
		st = s->ahead < 0 ? E_NO_PAGES : OK;
	}
	return st;
}

enum status engine_seq_fork(struct engine *e, const struct engine_seq *s,
			    struct engine_seq **out)
{
	struct engine_seq *fork = seq_alloc(e);
	fork->length = s->length;
	fork->n_pages = pages_for(e, s->length);
	fork->tail_is_borrowed = s->length % kvcache_page_size(e->kv) != 0;
	fork->prefix = s->prefix;
	fork->space = s->space ? xstrndup(s->space, s->space_n) : NULL;
	fork->space_n = s->space_n;
	fork->stays_in_memory = s->stays_in_memory;
	fork->lora = s->lora;
	fork->lora_scale = s->lora_scale;
	fork->images = s->images;
	fork->n_images = s->n_images;
	fork->state = fork->next = s->state;
	fork->is_lost = s->is_lost;
	fork->hidden_row = s->hidden_row;
	fork->hidden_step_no = s->hidden_step_no;
	fork->n_read = s->n_read;
	fork->n_words = s->n_words;
	fork->has_gap = s->has_gap;
	fork->checkpoint_length = fork->kept_length = s->length;
	fork->checkpoint_every = s->checkpoint_every;
	if (fork->state >= 0)
		states_hold(e->states, fork->state);
	for (int i = 0; i < fork->n_pages; i++) {
		fork->pages[i] = s->pages[i];
		kvcache_hold(e->kv, s->pages[i]);
	}
	*out = fork;
	return OK;
}

int engine_seq_cut(const struct engine *e, const struct engine_seq *s, int n)
{
	/* A checkpoint that stays a little before that point serves as well: a further step
	 * costs more than a few tokens that are computed again. So most turns, which resume
	 * there, need not stop. */
	bool is_far = s->turn_at - s->kept_length > e->checkpoint_every / NEAR_TURN;
	if (!e->states || !kvcache_keeps(e->kv))
		return n;
	if (s->length < s->turn_at && is_far)
		n = MIN(n, s->turn_at - s->length);
	return s->length < s->leave_at ? MIN(n, s->leave_at - s->length) : n;
}

int engine_common(const struct engine *e, const struct engine_prompt *a,
		  const struct engine_prompt *b)
{
	int size = kvcache_page_size(e->kv), n = MIN(a->n, b->n) - 1, at = 0;
	if (!kvcache_keeps(e->kv) || !str_eq(a->space, b->space))
		return 0;
	n = MIN(n, engine_image_common(a, b));
	while (at + size <= n && memcmp(a->tokens + at, b->tokens + at,
					sizeof *a->tokens * (size_t)size) == 0)
		at += size;
	return at;
}

void engine_seq_leave_state(const struct engine *e, struct engine_seq *s, int at)
{
	bool is_next = s->leave_at <= s->length || at < s->leave_at;
	if (e->states && at > s->length && is_next)
		s->leave_at = at;
}

/* Decides if the newest checkpoint stays, before another one is made. */
static void settle_checkpoint(struct engine *e, struct engine_seq *s)
{
	int at = s->checkpoint_length;
	if (at == s->turn_at || at == s->n_prompt || s->stays ||
	    at - s->kept_length >= s->checkpoint_every)
		s->kept_length = at;
	else if (s->checkpoint != KVCACHE_ROOT)
		states_drop(e->states, s->checkpoint);
	s->checkpoint = KVCACHE_ROOT;
	s->stays = false;
}

static void drop_ahead(struct engine *e, struct engine_seq *s)
{
	states_release(e->states, s->ahead);
	s->ahead = -1;
}

void engine_seq_plan_states(struct engine *e, struct engine_seq *s, int n)
{
	int size = kvcache_page_size(e->kv), end = (s->length + n) / size * size;
	drop_ahead(e, s);
	s->save = -1;
	s->save_length = end;
	if (end <= s->length || !kvcache_keeps(e->kv))
		return;
	/* Before and not after, so that the new checkpoint can take the old one's slot. */
	settle_checkpoint(e, s);
	s->save = states_alloc(e->states);
}

void engine_seq_plan_draft(struct engine *e, struct engine_seq *s, int n)
{
	s->save = -1;
	s->save_length = s->length + n;
	if (s->save_length % kvcache_page_size(e->kv) || !kvcache_keeps(e->kv))
		return;
	settle_checkpoint(e, s);
	s->save = s->next;
	states_hold(e->states, s->save);
}

/* Take the state in s->state through the first n draft tokens. */
static void replay_draft(struct engine *e, struct engine_seq *s, int n)
{
	if (states_is_private(e->states, s->state)) {
		drop_ahead(e, s);
	} else { /* the slot is a checkpoint now */
		s->next = s->ahead;
		s->ahead = -1;
	}
	engine_seq_plan_states(e, s, n);
	enum status st = e->graph.replay(
		e->graph.ctx, &(struct engine_replay){
				      .i_seq = s->draft_seq, .first_tok = s->draft_tok,
				      .n_tok = n, .from = s->state, .to = s->next,
				      .save = s->save,
				      .save_at = s->save_length - s->length - 1});
	engine_seq_end_states(e, s, st == OK);
	s->is_lost |= st != OK;
}

void engine_seq_keep_draft(struct engine *e, struct engine_seq *s, int n)
{
	int size = kvcache_page_size(e->kv);
	bool ends_page = kvcache_keeps(e->kv) && (s->length + n) / size > s->length / size;
	if (n > 0 && (n < s->n_draft || ends_page)) {
		replay_draft(e, s, n);
	} else if (n > 0) {
		states_release(e->states, s->state);
		s->state = s->next = s->ahead;
		s->ahead = -1;
	} else {
		drop_ahead(e, s);
	}
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

/* The sequence has just reached the length of which slot s->save has the state. */
static void keep_checkpoint(struct engine *e, struct engine_seq *s)
{
	s->checkpoint_length = s->length;
	s->stays = s->length == s->leave_at;
	if (states_find(e->states, s->prefix) < 0) { /* else another sequence has made it */
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
		kvcache_tokens(e->kv, page)[s->length % size] =
			engine_image_word(e, s, s->length, tokens[i]);
		if (++s->length % size != 0)
			continue;
		if (e->beside && draft_model_is_head(e->beside))
			e->beside->has_page[page] = !s->has_gap;
		s->prefix = kvcache_publish(e->kv, page, s->prefix);
		if (s->save >= 0 && s->length == s->save_length)
			keep_checkpoint(e, s);
	}
}

/* One more sequence, s, ends: a page or slot becomes available with the last one that holds it.
 * is_over: counts nothing, and sets the counts back to 0. */
static void count_available(struct engine *e, const struct engine_seq *s, bool is_over,
			    struct engine_available *out)
{
	int32_t *n_gone = e->n_gone, *n_slots_gone = e->n_gone + kvcache_total(e->kv);
	const int32_t slots[] = {s->state, s->next == s->state ? -1 : s->next, s->ahead};
	for (int k = 0; k < s->n_pages; k++) {
		int32_t page = s->pages[k], n = is_over ? 0 : n_gone[page] + 1;
		out->pages += n == kvcache_holders(e->kv, page);
		n_gone[page] = n;
	}
	for (size_t i = 0; i < ARRAY_LEN(slots) && e->states; i++) {
		if (slots[i] < 0)
			continue;
		int32_t n = is_over ? 0 : n_slots_gone[slots[i]] + 1;
		out->slots += n == states_holders(e->states, slots[i]);
		n_slots_gone[slots[i]] = n;
	}
}

void engine_available(struct engine *e, struct engine_seq *const *seqs, int n,
		      struct engine_available *out)
{
	out[0] = (struct engine_available){.pages = kvcache_available(e->kv), .slots = 1};
	if (e->states)
		out[0].slots = states_available(e->states);
	for (int i = 0; i < n; i++) {
		out[i + 1] = out[i];
		count_available(e, seqs[i], false, &out[i + 1]);
	}
	for (int i = 0; i < n; i++)
		count_available(e, seqs[i], true, &(struct engine_available){0});
}

enum status engine_seq_repeat(struct engine *e, struct engine_seq *s, int n)
{
	int size = kvcache_page_size(e->kv), n_own = s->length / size;
	enum status st = OK;
	if (kvcache_keeps(e->kv) || n_own == 0 || s->length % size || n % size ||
	    s->length + n > engine_seq_capacity(e, s))
		return E_INVAL;
	for (int i = 0; i < n / size && st == OK; i++) {
		int32_t from = s->pages[i % n_own], to = s->pages[n_own + i];
		if (e->graph.copy_page)
			st = e->graph.copy_page(e->graph.ctx, to, from);
		if (st == OK)
			engine_seq_append(e, s, kvcache_tokens(e->kv, from), size);
	}
	return st;
}

void engine_seq_destroy(struct engine *e, struct engine_seq *s)
{
	if (!s)
		return;
	if (!s->stays_in_memory)
		engine_disk_keep(e, s);
	engine_miss_remember(e, s);
	/* Pages go last to first: see kvcache.c on the order of eviction. */
	for (int i = s->n_pages - 1; i >= 0; i--)
		kvcache_release(e->kv, s->pages[i]);
	if (e->states && s->next != s->state)
		states_release(e->states, s->next);
	if (e->states) {
		states_release(e->states, s->state);
		drop_ahead(e, s);
	}
	free(s->space);
	free(s);
}
