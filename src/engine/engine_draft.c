/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafts by the MTP layer, one token of each sequence at a time. Draft token k + 1 reads
 * the hidden state that draft token k left. Keys and values of the layer lie in the pages of the
 * sequence, at the position of the token; the next step writes them again.
 */
#include "base/alloc.h"
#include "engine/engine_draft.h"
#include "engine/engine_private.h"

int32_t engine_alone_ctx(const struct engine *e)
{
	return e->graph.alone_ctx;
}

void engine_set_least_ctx(struct engine *e, int32_t n)
{
	e->batch.least_ctx = n;
}

bool engine_can_draft(const struct engine *e)
{
	return e->graph.draft != NULL;
}

/* Puts token k of w, which comes after those in the cache, into the batch. hidden: the row of the
 * hidden state of the token before it. */
static void put_token(struct engine *e, const struct engine_draft *w, int k, int32_t hidden)
{
	struct engine_batch *b = &e->batch;
	const struct batch_arrays *a = &e->arrays;
	int size = kvcache_page_size(e->kv), i = b->n_tok++, at = w->seq->length + k;
	a->token[i] = k == 0 ? w->token : w->out[k - 1];
	a->position[i] = at;
	a->seq_of[i] = a->first_tok[i] = a->logit_rows[i] = i;
	a->first_tok[i + 1] = i + 1;
	a->slot[i] = w->seq->pages[at / size] * size + at % size;
	a->inv_t[i] = 1;
	a->hidden[i] = hidden;
	engine_image_place(e, w->seq, at, i);
	a->n_ctx[i] = at + 1;
	int32_t *table = a->page_table + (size_t)i * (size_t)e->max_pages_per_seq;
	for (int p = 0; p * size < at + 1; p++)
		table[p] = w->seq->pages[p];
	b->n_seq = b->n_logit_rows = b->n_tok;
}

static bool is_known(const struct engine *e, const struct engine_draft *w)
{
	return w->seq->hidden_step_no == e->step_no && w->n <= ENGINE_DRAFT_MAX &&
	       w->seq->length + w->n <= engine_seq_capacity(e, w->seq) &&
	       w->token >= 0 && w->token < e->graph.n_vocab;
}

/* Makes one more draft token for each sequence that wants one. row: the index of g[i] in the
 * last batch. */
static enum status draft_one(struct engine *e, struct engine_draft *g, int n, int k,
			     int32_t *row, struct fail *fail)
{
	int32_t ids[ENGINE_HIDDEN_ROWS], last = ENGINE_HIDDEN_ROWS + e->max_batch_tok;
	e->batch.n_tok = 0;
	for (int i = 0; i < n; i++) {
		if (g[i].n <= k || !is_known(e, &g[i]))
			continue;
		put_token(e, &g[i], k, k == 0 ? g[i].seq->hidden_row : last + row[i]);
		row[i] = e->batch.n_tok - 1;
	}
	if (e->batch.n_tok == 0)
		return OK;
	enum status st = e->graph.draft(e->graph.ctx, &e->batch, ids, fail);
	for (int i = 0; i < n && st == OK; i++)
		if (g[i].n > k && is_known(e, &g[i]))
			g[i].out[g[i].n_out++] = ids[row[i]];
	return st;
}

enum status engine_draft(struct engine *e, struct engine_draft *g, int n, struct fail *fail)
{
	int32_t row[ENGINE_HIDDEN_ROWS];
	enum status st = OK;
	if (!e->graph.draft || n > MIN(ENGINE_HIDDEN_ROWS, e->max_seqs))
		return fail_set(fail, E_INVAL, "draft tokens for %d sequences", n);
	e->top = NULL;
	e->batch.has_drafts = false;
	e->batch.n_views = 0;
	for (int i = 0; i < n; i++)
		g[i].n_out = 0;
	for (int k = 0; k < ENGINE_DRAFT_MAX && st == OK; k++)
		st = draft_one(e, g, n, k, row, fail);
	return st == OK ? OK : fail_default(fail, st);
}
