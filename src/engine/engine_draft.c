/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafts by a model, one token of each sequence at a time. There are three kinds of such models
 * (struct drafter).
 *
 * The MTP layer: draft token k + 1 reads the hidden state that draft token k left. Keys and values
 * of the layer lie in the pages of the sequence, at the position of the token; the next step
 * writes them again.
 *
 * An EAGLE-3 head: the same, in a graph of its own. Pages that come from the disk lack its keys.
 *
 * A model beside the engine's own: it reads tokens alone, so it can read those of a sequence at any
 * time. Those that it drafted, and that were right, it has read already.
 */
#include "base/alloc.h"
#include "engine/engine_draft.h"
#include "engine/engine_private.h"

enum {
	MTP_DRAFTS = 3,
	HEAD_DRAFTS = 7,
	/* Tokens that a draft reads on its way: those that one step may have brought. */
	NEAR = 1 + ENGINE_DRAFT_MAX
};

struct drafter {
	int max; /* draft tokens of a sequence */
	bool (*is_ready)(struct engine *e, const struct engine_draft *w);
	/* Puts into the batch what draft token k is made of. row: that of draft token k - 1. False:
	 * there is no room for it. */
	bool (*put)(struct engine *e, const struct engine_draft *w, int k, int32_t row);
	/* The best token of each row of the batch. */
	enum status (*run)(struct engine *e, int32_t *ids, struct fail *fail);
};

int32_t engine_alone_ctx(const struct engine *e)
{
	return e->graph.alone_ctx;
}

void engine_set_least_ctx(struct engine *e, int32_t n)
{
	e->batch.least_ctx = n;
}

static void begin_batch(struct engine *e)
{
	e->batch.n_tok = e->batch.n_seq = e->batch.n_logit_rows = e->batch.n_views = 0;
	e->batch.has_drafts = false;
	e->batch.has_lora = false; /* what drafts has no adapters */
}

/* Puts a token of the batch's newest sequence, s, into it. hidden: the row of the hidden state of
 * the token before it. */
static void put_token(struct engine *e, const struct engine_seq *s, int32_t token, int at,
		      int32_t hidden)
{
	const struct batch_arrays *a = &e->arrays;
	int size = kvcache_page_size(e->kv), t = e->batch.n_tok++, i_seq = e->batch.n_seq - 1;
	a->token[t] = token;
	a->position[t] = at;
	a->seq_of[t] = i_seq;
	a->slot[t] = s->pages[at / size] * size + at % size;
	a->hidden[t] = hidden;
	engine_image_place(e, s, at, t);
	a->first_tok[i_seq + 1] = e->batch.n_tok;
	a->n_ctx[i_seq] = at + 1;
}

/* Begins a sequence in the batch, which will have tokens up to position end - 1. */
static void put_seq(struct engine *e, const struct engine_seq *s, int end)
{
	int size = kvcache_page_size(e->kv), i_seq = e->batch.n_seq++;
	int32_t *table = e->arrays.page_table + (size_t)i_seq * (size_t)e->max_pages_per_seq;
	e->arrays.first_tok[i_seq] = e->batch.n_tok;
	for (int p = 0; p * size < end; p++)
		table[p] = s->pages[p];
}

/* --- the MTP layer ------------------------------------------------------------------ */

static bool mtp_is_ready(struct engine *e, const struct engine_draft *w)
{
	return w->seq->hidden_step_no == e->step_no;
}

static bool mtp_put(struct engine *e, const struct engine_draft *w, int k, int32_t row)
{
	int at = w->seq->length + k;
	int32_t last = ENGINE_HIDDEN_ROWS + e->max_batch_tok;
	put_seq(e, w->seq, at + 1);
	put_token(e, w->seq, k == 0 ? w->token : w->out[k - 1], at,
		  k == 0 ? w->seq->hidden_row : last + row);
	return true;
}

static enum status mtp_run_batch(struct engine *e, int32_t *ids, struct fail *fail)
{
	return e->graph.draft(e->graph.ctx, &e->batch, ids, fail);
}

static const struct drafter mtp = {MTP_DRAFTS, mtp_is_ready, mtp_put, mtp_run_batch};

/* --- an EAGLE-3 head ------------------------------------------------------------------ */

static bool head_is_ready(struct engine *e, const struct engine_draft *w)
{
	return engine_draft_behind(e, w->seq) == 0 && mtp_is_ready(e, w);
}

static enum status head_run_batch(struct engine *e, int32_t *ids, struct fail *fail)
{
	return e->beside->graph.draft(e->beside->graph.ctx, &e->batch, ids, fail);
}

static const struct drafter head = {HEAD_DRAFTS, head_is_ready, mtp_put, head_run_batch};

bool engine_draft_filled(const struct engine *e, enum status *out, struct fail *fail)
{
	if (!e->beside || !draft_model_is_head(e->beside) || e->drafts_are_off)
		return false;
	*out = e->head_st;
	*fail = e->head_fail;
	return true;
}

void engine_draft_stop(struct engine *e)
{
	e->drafts_are_off = true;
}

/* --- a model beside the engine's own ------------------------------------------------ */

static bool reads_alone(const struct engine *e)
{
	return e->beside && !draft_model_is_head(e->beside);
}

/* Notes that the model beside has read the first n tokens of s. */
static void note_read(struct engine *e, struct engine_seq *s, int n)
{
	int size = kvcache_page_size(e->kv);
	for (int p = s->n_read / size; p < n / size; p++)
		e->beside->has_page[s->pages[p]] = true;
	s->n_read = n;
}

static int32_t token_at(const struct engine *e, const struct engine_seq *s, int at)
{
	int size = kvcache_page_size(e->kv);
	return kvcache_tokens(e->kv, s->pages[at / size])[at % size];
}

/* What the model beside has read without s: pages that s shares, and draft tokens of s that were
 * right. */
static void find_read(struct engine *e, struct engine_seq *s)
{
	int size = kvcache_page_size(e->kv), n = s->n_read;
	for (int i = 0; n == s->drafted_at + i && i < s->n_drafted && n < s->length; i++, n++)
		if (token_at(e, s, n) != s->drafted[i])
			break;
	s->n_drafted = 0;
	while (n / size < s->length / size && e->beside->has_page[s->pages[n / size]])
		n = (n / size + 1) * size;
	note_read(e, s, n);
}

/* Are its tokens all words that the model beside knows? Each token is looked at once. */
static bool has_words(const struct engine *e, struct engine_seq *s)
{
	int32_t n_vocab = e->beside->graph.n_vocab;
	for (; s->n_words < s->length; s->n_words++) {
		int32_t token = token_at(e, s, s->n_words);
		if (token < 0 || token >= n_vocab)
			return false;
	}
	return true;
}

int engine_draft_behind(struct engine *e, struct engine_seq *s)
{
	if (!e->beside)
		return 0;
	find_read(e, s);
	int behind = s->length - s->n_read;
	if (!reads_alone(e)) /* a head reads whole pages, in the model's own steps only */
		return behind < kvcache_page_size(e->kv) && !s->has_gap ? 0 : -1;
	if (s->n_images || s->length >= e->beside->graph.max_ctx || !has_words(e, s))
		return -1;
	return behind <= MIN(NEAR, e->beside->max_tok - 1) ? 0 : behind;
}

static bool beside_is_ready(struct engine *e, const struct engine_draft *w)
{
	return engine_draft_behind(e, w->seq) == 0 && w->token < e->beside->graph.n_vocab;
}

static bool beside_put(struct engine *e, const struct engine_draft *w, int k, int32_t row)
{
	const struct engine_seq *s = w->seq;
	int at = s->length + k, from = k == 0 ? s->n_read : at;
	(void)row;
	if (at >= e->beside->graph.max_ctx || e->batch.n_tok + at + 1 - from > e->beside->max_tok)
		return false;
	put_seq(e, s, at + 1);
	for (; from < s->length; from++)
		put_token(e, s, token_at(e, s, from), from, 0);
	put_token(e, s, k == 0 ? w->token : w->out[k - 1], at, 0);
	return true;
}

static enum status beside_run(struct engine *e, int32_t *ids, struct fail *fail)
{
	return draft_model_run(e->beside, &e->batch, ids, fail);
}

static const struct drafter beside = {ENGINE_DRAFT_MAX, beside_is_ready, beside_put, beside_run};

enum status engine_draft_read(struct engine *e, struct engine_seq *s, int most, int *out_n,
			      struct fail *fail)
{
	int n = MIN(engine_draft_behind(e, s), most);
	*out_n = 0;
	if (n < 1)
		return OK;
	n = MIN(n, e->beside->max_tok);
	begin_batch(e);
	put_seq(e, s, s->n_read + n);
	for (int i = s->n_read; i < s->n_read + n; i++)
		put_token(e, s, token_at(e, s, i), i, 0);
	enum status st = draft_model_run(e->beside, &e->batch, NULL, fail); /* no rows */
	if (st != OK)
		return fail_default(fail, st);
	note_read(e, s, s->n_read + n);
	*out_n = n;
	return OK;
}

/* --- drafts ------------------------------------------------------------------------- */

static const struct drafter *drafter_of(const struct engine *e)
{
	if (e->beside)
		return draft_model_is_head(e->beside) ? &head : &beside;
	return e->graph.draft ? &mtp : NULL;
}

int engine_draft_max(const struct engine *e)
{
	const struct drafter *d = drafter_of(e);
	return d && !e->drafts_are_off ? d->max : 0;
}

static bool is_possible(const struct engine *e, const struct drafter *d,
			const struct engine_draft *w)
{
	return w->n <= d->max &&
	       w->seq->length + w->n <= engine_seq_capacity(e, w->seq) && w->token >= 0 &&
	       w->token < e->graph.n_vocab;
}

/* Says which rows of the batch are wanted. out_row (n_seq): where that of a sequence's last token
 * will be. In a small batch all are wanted, so that a GPU can record it. */
static void put_rows(struct engine *e, int32_t *out_row)
{
	struct engine_batch *b = &e->batch;
	const struct batch_arrays *a = &e->arrays;
	bool is_all = b->n_tok <= ENGINE_DRAFT_TOK;
	b->n_logit_rows = is_all ? b->n_tok : b->n_seq;
	b->has_drafts = is_all && b->n_tok > b->n_seq;
	for (int i = 0; i < b->n_seq; i++)
		out_row[i] = is_all ? a->first_tok[i + 1] - 1 : i;
	for (int i = 0; i < b->n_logit_rows; i++) {
		a->logit_rows[i] = is_all ? i : a->first_tok[i + 1] - 1;
		a->inv_t[i] = 1;
	}
}

/* Makes draft token k of each sequence that has those before it. row: of g[i] in the last batch. */
static enum status draft_one(struct engine *e, const struct drafter *d, struct engine_draft *g,
			     int n, int k, int32_t *row, struct fail *fail)
{
	int32_t ids[ENGINE_HIDDEN_ROWS], last[ENGINE_HIDDEN_ROWS];
	int at[ENGINE_HIDDEN_ROWS];
	begin_batch(e);
	for (int i = 0; i < n; i++)
		if (g[i].n > k && g[i].n_out == k && d->put(e, &g[i], k, row[i]))
			at[e->batch.n_seq - 1] = i;
	if (e->batch.n_tok == 0)
		return OK;
	put_rows(e, last);
	enum status st = d->run(e, ids, fail);
	for (int i = 0; i < e->batch.n_seq && st == OK; i++) {
		struct engine_draft *w = &g[at[i]];
		row[at[i]] = last[i];
		if (ids[last[i]] >= 0 && ids[last[i]] < e->graph.n_vocab)
			w->out[w->n_out++] = ids[last[i]];
	}
	return st;
}

/* The model beside has now read all tokens of the sequence, the newest one, and all draft tokens
 * but the last. */
static void note_drafted(struct engine *e, const struct engine_draft *w)
{
	struct engine_seq *s = w->seq;
	if (w->n_out == 0)
		return;
	note_read(e, s, s->length);
	s->drafted_at = s->length;
	s->n_drafted = w->n_out;
	s->drafted[0] = w->token;
	memcpy(s->drafted + 1, w->out, (size_t)(w->n_out - 1) * sizeof *s->drafted);
}

enum status engine_draft(struct engine *e, struct engine_draft *g, int n, struct fail *fail)
{
	const struct drafter *d = drafter_of(e);
	int32_t row[ENGINE_HIDDEN_ROWS] = {0};
	enum status st = OK;
	if (!d || n > MIN(ENGINE_HIDDEN_ROWS, e->max_seqs))
		return fail_set(fail, E_INVAL, "draft tokens for %d sequences", n);
	e->top = NULL;
	for (int i = 0; i < n; i++)
		g[i].n_out = is_possible(e, d, &g[i]) && d->is_ready(e, &g[i]) ? 0 : -1;
	for (int k = 0; k < d->max && st == OK; k++)
		st = draft_one(e, d, g, n, k, row, fail);
	for (int i = 0; i < n; i++) {
		g[i].n_out = MAX(g[i].n_out, 0);
		if (reads_alone(e) && st == OK)
			note_drafted(e, &g[i]);
	}
	return st == OK ? OK : fail_default(fail, st);
}
