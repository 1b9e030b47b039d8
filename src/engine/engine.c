/* SPDX-License-Identifier: Apache-2.0
 *
 * One step: slices of sequences become one flat batch for the graph.
 *
 *   slices   A: 3 tokens (prefill)   B: 1 token   C: 1 token
 *   token    a5 a6 a7 b9 c2          position  5 6 7 9 2
 *   seq_of    0  0  0  1  2          first_tok 0 3 4 5
 *   slot     where each token's key and value go: page * P + offset
 *   n_ctx    8 10 3                  tokens of each in the cache after the step
 *
 * All checks come before the graph runs, and sequences advance only after it succeeded.
 * So a failed step leaves no trace: it wrote only beyond the length of every sequence.
 */
#include "engine/engine.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/engine_disk.h"
#include "engine/engine_private.h"
#include "engine/step_ids.h"

static enum status batch_alloc(struct engine *e)
{
	size_t t = (size_t)e->max_batch_tok, b = (size_t)e->max_seqs;
	const struct step_counts counts = {
		.n_tok = t, .n_seq = b, .n_row = t, .n_state = b, .n_mtp = t,
		.n_rope = 3 * t,
		.n_block = 3 * t,
		.n_seen = t,
		.n_lora = t,
		.n_page = b * (size_t)e->max_pages_per_seq}, *c = &counts;
	int32_t *p = calloc(step_ids_words(c) + b * (1 + ENGINE_BEFORE), sizeof *p);
	if (!p)
		return E_NOMEM;
	e->batch.n_ctx = e->arrays.n_ctx = p + step_ids_words(c);
	e->batch.before = e->arrays.before = e->arrays.n_ctx + b;
	e->batch.max_pages_per_seq = e->max_pages_per_seq;
#define X(type, field, elements) \
	e->batch.field = e->arrays.field = (type *)(void *)p; \
	p += (elements);
	STEP_IDS(X)
#undef X
	return OK;
}

enum status engine_create_with(const struct engine_graph *g,
			       const struct engine_opts *o, int n_pages,
			       struct engine **out)
{
	int page_size = o->page_size ? o->page_size : 16;
	int n_ctx = o->n_ctx ? o->n_ctx : g->max_ctx;
	size_t n_out = (size_t)(g->n_out ? g->n_out : g->n_vocab);
	if (page_size < 1 || n_ctx < 1 || n_ctx > g->max_ctx || n_pages < 1 ||
	    n_pages > INT32_MAX / page_size || o->max_seqs < 0 ||
	    o->max_batch_tok < 0 || g->n_states < 0)
		return E_INVAL;
	struct engine *e = xcalloc(1, sizeof *e);
	e->n_ctx = n_ctx;
	e->image_rules = o->image_rules;
	e->max_seqs = o->max_seqs ? o->max_seqs : 8;
	e->max_batch_tok = o->max_batch_tok ? o->max_batch_tok : 4096;
	e->max_pages_per_seq = n_ctx / page_size + (n_ctx % page_size != 0);
	e->logits_before = xcalloc((size_t)e->max_seqs, sizeof *e->logits_before);
	e->is_fetched = xcalloc((size_t)e->max_batch_tok, sizeof *e->is_fetched);
	e->n_gone = xcalloc((size_t)n_pages + (size_t)g->n_states, sizeof *e->n_gone);
	enum status st = kvcache_create(n_pages, page_size, o->prefix_cache, &e->kv);
	e->checkpoint_every = o->checkpoint_every ? o->checkpoint_every : 512;
	if (st == OK)
		e->spaces = spaces_create(e->kv);
	if (st == OK && o->prefix_cache)
		e->histories = histories_create();
	if (st == OK && g->n_states)
		st = states_create(g->n_states, &e->states);
	if (st == OK)
		st = batch_alloc(e);
	if (st == OK) {
		/* Rows that no step asks for are never touched and stay virtual. */
		e->logits = malloc((size_t)e->max_batch_tok * n_out *
				   sizeof *e->logits);
		st = e->logits ? OK : E_NOMEM;
	}
	if (st != OK) {
		engine_destroy(e);
		return st;
	}
	e->graph = *g;
	e->graph.n_out = (int32_t)n_out;
	*out = e;
	return OK;
}

void engine_destroy(struct engine *e)
{
	if (!e)
		return;
	engine_disk_close(e);
	draft_model_destroy(e->beside);
	if (e->graph.destroy)
		e->graph.destroy(e->graph.ctx);
	histories_destroy(e->histories);
	spaces_destroy(e->spaces);
	kvcache_destroy(e->kv);
	states_destroy(e->states);
	free(e->arrays.token);
	free(e->is_fetched);
	free(e->n_gone);
	free(e->logits_before);
	free(e->views);
	free(e->logits);
	free(e);
}

int engine_n_ctx(const struct engine *e)
{
	return e->n_ctx;
}

int engine_n_vocab(const struct engine *e)
{
	return e->graph.n_vocab;
}

int engine_page_size(const struct engine *e)
{
	return kvcache_page_size(e->kv);
}

int engine_max_seqs(const struct engine *e)
{
	return e->max_seqs;
}

int engine_max_batch_tok(const struct engine *e)
{
	return e->max_batch_tok;
}

int engine_pages_total(const struct engine *e)
{
	return kvcache_total(e->kv);
}

int engine_pages_free(const struct engine *e)
{
	return kvcache_available(e->kv);
}

void engine_watch_routers(struct engine *e, engine_watch_fn fn, void *ctx)
{
	if (e->graph.watch_routers)
		e->graph.watch_routers(e->graph.ctx, fn, ctx);
}

void engine_stats(const struct engine *e, struct engine_stats *out)
{
	*out = e->stats;
	out->checkpoints = e->states ? states_n_kept(e->states) : 0;
	out->checkpoints_max = e->graph.n_states;
}

static enum status check_slice(struct engine *e, const struct engine_slice *s,
			       struct fail *fail)
{
	if (s->n < 1 || s->n_logits < 0 || s->n_logits > s->n)
		return fail_set(fail, E_INVAL, "a slice of %d tokens wants %d logits",
				s->n, s->n_logits);
	bool has_room = s->n_draft == 0 || !e->states || s->seq->ahead >= 0;
	if (s->n_draft < 0 || s->n_draft >= s->n || !has_room)
		return fail_set(fail, E_INVAL, "a slice of %d tokens has %d draft tokens", s->n,
				s->n_draft);
	if (s->seq->step_no == e->step_no)
		return fail_set(fail, E_INVAL, "a sequence is twice in one step");
	s->seq->step_no = e->step_no;
	if (s->seq->is_lost)
		return fail_set(fail, E_BACKEND, "a step that failed lost the sequence's "
				"state");
	if (s->n > e->n_ctx - s->seq->length)
		return fail_set(fail, E_CTX_LEN,
				"%d more tokens after %d pass the context of %d",
				s->n, s->seq->length, e->n_ctx);
	if (s->seq->length + s->n > engine_seq_capacity(e, s->seq))
		return fail_set(fail, E_NO_PAGES, "no room was reserved");
	if (engine_seq_whole(e, s->seq, s->n, 0) != s->n)
		return fail_set(fail, E_INVAL, "a step of %d tokens ends within an image",
				s->n);
	if (!engine_seq_has_slot(e, s->seq))
		return fail_set(fail, E_NO_PAGES, "no slot for its state");
	for (int i = 0; i < s->n; i++)
		if (s->tokens[i] < 0 || s->tokens[i] >= e->graph.n_vocab)
			return fail_set(fail, E_INVAL,
					"token %d is outside the vocabulary of %d",
					(int)s->tokens[i], (int)e->graph.n_vocab);
	return OK;
}

static enum status check_step(struct engine *e, const struct engine_slice *slices,
			      int n_slices, struct fail *fail)
{
	int n_tok = 0;
	bool has_drafts = false;
	e->step_no++;
	if (n_slices < 1 || n_slices > e->max_seqs)
		return fail_set(fail, E_INVAL, "a step of %d sequences, at most %d",
				n_slices, e->max_seqs);
	for (int i = 0; i < n_slices; i++) {
		enum status st = check_slice(e, &slices[i], fail);
		if (st != OK)
			return st;
		if (slices[i].n > e->max_batch_tok - n_tok)
			return fail_set(fail, E_INVAL, "a step of more than %d tokens",
					e->max_batch_tok);
		n_tok += slices[i].n;
		has_drafts |= slices[i].n_draft > 0;
	}
	if (has_drafts && e->states && n_tok > engine_draft_room(e))
		return fail_set(fail, E_INVAL, "a step with drafts of %d tokens, at most %d",
				n_tok, engine_draft_room(e));
	return OK;
}

/* The tokens in the cache before a slice, the last first. */
static void note_before(const struct engine *e, const struct engine_seq *s, int32_t *out)
{
	int size = kvcache_page_size(e->kv);
	for (int i = 0; i < ENGINE_BEFORE; i++) {
		int at = s->length - 1 - i;
		out[i] = at < 0 ? -1 : engine_image_token(
			e, s, at, kvcache_tokens(e->kv, s->pages[at / size])[at % size]);
	}
}

static void build_slice(struct engine *e, const struct engine_slice *s)
{
	struct engine_batch *b = &e->batch;
	const struct batch_arrays *arrays = &e->arrays;
	int size = kvcache_page_size(e->kv), i_seq = b->n_seq++;
	int n_ctx = s->seq->length + s->n;
	for (int i = 0; i < s->n; i++) {
		int t = b->n_tok + i, pos = s->seq->length + i;
		arrays->token[t] = s->tokens[i];
		arrays->position[t] = pos;
		arrays->seq_of[t] = i_seq;
		arrays->slot[t] = s->seq->pages[pos / size] * size + pos % size;
		arrays->hidden[t] = ENGINE_HIDDEN_ROWS + MAX(t - 1, 0);
		engine_image_place(e, s->seq, pos, t);
		arrays->lora[t] = s->seq->lora - 1;
		arrays->lora_scale[t] = s->seq->lora_scale;
		if (i < s->n - s->n_logits)
			continue;
		arrays->inv_t[b->n_logit_rows] = s->inv_t > 0 ? s->inv_t : 1;
		arrays->logit_rows[b->n_logit_rows++] = t;
	}
	/* The first token of a slice needs the hidden row of the token before it. That row is
	 * there only if the sequence took part in the last step; else the token's own row
	 * stands in. */
	arrays->hidden[b->n_tok] = s->seq->hidden_step_no + 1 == e->step_no
					   ? s->seq->hidden_row
					   : ENGINE_HIDDEN_ROWS + b->n_tok;
	if (e->states) {
		struct engine_seq *seq = s->seq;
		int n_sure = s->n - s->n_draft;
		s->n_draft ? engine_seq_plan_draft(e, seq, n_sure)
			   : engine_seq_plan_states(e, seq, s->n);
		arrays->states.from[i_seq] = seq->state;
		arrays->states.to[i_seq] = s->n_draft ? seq->ahead : seq->next;
		arrays->states.save[i_seq] = s->n_draft ? seq->next : seq->save;
		arrays->states.save_at[i_seq] =
			b->n_tok - 1 + (s->n_draft ? n_sure : seq->save_length - seq->length);
	}
	note_before(e, s->seq, arrays->before + (size_t)i_seq * ENGINE_BEFORE);
	engine_image_note(e, s->seq, b->n_tok, s->n);
	b->has_drafts |= s->n_draft > 0;
	b->has_lora |= s->seq->lora > 0;
	s->seq->draft_seq = i_seq;
	s->seq->draft_tok = b->n_tok + s->n - s->n_draft;
	arrays->first_tok[i_seq] = b->n_tok;
	arrays->first_tok[i_seq + 1] = b->n_tok + s->n;
	arrays->n_ctx[i_seq] = n_ctx;
	int32_t *table = arrays->page_table +
			 (size_t)i_seq * (size_t)e->max_pages_per_seq;
	for (int i = 0; i * size < n_ctx; i++)
		table[i] = s->seq->pages[i];
	b->n_tok += s->n;
}

/* A head that drafts runs behind the model. The step goes on without it unless the device is lost.
 * *out_is_filled: it lacks nothing of this step. */
static enum status fill_head(struct engine *e, bool *out_is_filled, struct fail *fail)
{
	if (!e->beside || !draft_model_is_head(e->beside))
		return OK;
	e->batch.has_lora = false; /* what drafts has no adapters */
	e->head_fail = (struct fail){0};
	e->head_st = e->drafts_are_off ? OK
				       : e->beside->graph.forward(e->beside->graph.ctx, &e->batch,
								  NULL, &e->head_fail);
	*out_is_filled = e->head_st == OK && !e->drafts_are_off;
	if (e->head_st == E_DEVICE && fail)
		*fail = e->head_fail;
	return e->head_st == E_DEVICE ? E_DEVICE : OK;
}

enum status engine_step(struct engine *e, const struct engine_slice *slices,
			int n_slices, struct fail *fail)
{
	bool is_filled = true;
	enum status st = check_step(e, slices, n_slices, fail);
	if (st != OK)
		return st;
	e->batch.n_tok = e->batch.n_seq = e->batch.n_logit_rows = 0;
	e->batch.has_drafts = e->batch.has_lora = false;
	e->batch.n_views = 0;
	for (int i = 0; i < n_slices; i++) {
		e->logits_before[i] = e->batch.n_logit_rows;
		build_slice(e, &slices[i]);
	}
	e->top = NULL;
	st = e->graph.forward(e->graph.ctx, &e->batch, e->logits, fail);
	if (st == OK && e->graph.top)
		e->top = e->graph.top(e->graph.ctx);
	if (st == OK)
		st = fill_head(e, &is_filled, fail);
	memset(e->is_fetched, 0, (size_t)e->batch.n_logit_rows * sizeof *e->is_fetched);
	for (int i = 0; e->states && i < n_slices; i++)
		engine_seq_end_states(e, slices[i].seq, st == OK);
	if (st != OK)
		return fail_default(fail, st);
	for (int i = 0; i < n_slices; i++) {
		const struct engine_slice *s = &slices[i];
		s->seq->has_gap |= !is_filled;
		engine_seq_append(e, s->seq, s->tokens, s->n - s->n_draft);
		s->seq->n_draft = s->n_draft;
		bool has_row = is_filled && s->n_logits > s->n_draft &&
			       e->batch.n_logit_rows <= ENGINE_HIDDEN_ROWS;
		s->seq->hidden_row = e->logits_before[i] + s->n_logits - 1 - s->n_draft;
		s->seq->hidden_step_no = has_row ? e->step_no : HIDDEN_NONE;
	}
	return OK;
}

int engine_draft_room(const struct engine *e)
{
	int few = e->graph.few_tok ? e->graph.few_tok : e->max_batch_tok;
	if (e->states && !e->graph.replay)
		return 0;
	return MIN(MIN(few, e->max_batch_tok), ENGINE_DRAFT_TOK);
}

/* The keys and values of these tokens lie behind the sequence's end already. */
void engine_seq_confirm(struct engine *e, struct engine_seq *s, const int32_t *tokens, int n)
{
	assert(n <= s->n_draft);
	if (e->states)
		engine_seq_keep_draft(e, s, n);
	engine_seq_append(e, s, tokens, n);
	s->hidden_row += n;
	s->n_draft = 0;
}

/* The number of logit rows up to the end of slice i. */
static int32_t rows_end(const struct engine *e, int i_slice)
{
	assert(i_slice >= 0 && i_slice < e->batch.n_seq);
	return i_slice + 1 < e->batch.n_seq ? e->logits_before[i_slice + 1]
					    : e->batch.n_logit_rows;
}

const float *engine_logits_row(struct engine *e, int i_slice, int i_row)
{
	int32_t r = e->logits_before[i_slice] + i_row;
	float *row = e->logits + (size_t)r * (size_t)e->graph.n_out;
	assert(r < rows_end(e, i_slice));
	if (e->top && !e->is_fetched[r]) {
		if (e->graph.fetch(e->graph.ctx, r, row) != OK)
			return NULL;
		e->is_fetched[r] = true;
	}
	return row;
}

const float *engine_logits(struct engine *e, int i_slice)
{
	int32_t n = rows_end(e, i_slice) - e->logits_before[i_slice];
	for (int32_t i = 0; e->top && i < n; i++)
		if (!engine_logits_row(e, i_slice, i))
			return NULL;
	return e->logits + (size_t)e->logits_before[i_slice] * (size_t)e->graph.n_out;
}

const struct logits_top *engine_top_row(const struct engine *e, int i_slice, int i_row)
{
	int32_t r = e->logits_before[i_slice] + i_row;
	assert(r < rows_end(e, i_slice));
	return e->top ? &e->top[r] : NULL;
}

const struct logits_top *engine_top(const struct engine *e, int i_slice)
{
	int32_t n = rows_end(e, i_slice) - e->logits_before[i_slice];
	assert(n > 0);
	return engine_top_row(e, i_slice, n - 1);
}
