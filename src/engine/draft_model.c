/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/draft_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

/* Models of one kind differ in so many tokens at most: those that were added later. */
#define MOST_MISSING 128

static enum status fail_token(const struct model *m, const struct model *draft, int32_t id,
			      struct fail *fail)
{
	struct buf is = {0}, is_there = {0};
	buf_add_json(&is, tokenizer_bytes(m->tokenizer, id));
	buf_add_json(&is_there, tokenizer_bytes(draft->tokenizer, id));
	fail_at(fail, E_CONFIG, "draft_model", "draft_model has another vocabulary: token %d is "
		"%.*s in %.120s and %.*s in %.120s. Name a smaller model of the same kind",
		(int)id, (int)MIN(is.n, 60), is.p, m->dir, (int)MIN(is_there.n, 60),
		is_there.p, draft->dir);
	buf_deinit(&is);
	buf_deinit(&is_there);
	return E_CONFIG;
}

/* The text of a token; empty if there is none. Some converters of GGUF files name the head's rows
 * without a token [PAD0], [PAD1] and so on, others leave them empty. */
static struct str text_of(const struct tokenizer *t, int32_t id)
{
	const struct str begin = STR("[PAD"), s = tokenizer_bytes(t, id);
	bool is_pad = s.n > begin.n + 1 && memcmp(s.p, begin.p, begin.n) == 0 &&
		      s.p[s.n - 1] == ']';
	for (size_t i = begin.n; is_pad && i + 1 < s.n; i++)
		is_pad = s.p[i] >= '0' && s.p[i] <= '9';
	return is_pad ? STR("") : s;
}

static enum status check_vocabulary(const struct model *m, const struct model *draft,
				    struct fail *fail)
{
	const struct tokenizer *a = m->tokenizer, *b = draft->tokenizer;
	int32_t n = MAX(tokenizer_n_ids(a), tokenizer_n_ids(b)), n_missing = 0, first = 0;
	for (int32_t id = 0; id < n; id++) {
		struct str is = text_of(a, id), is_there = text_of(b, id);
		bool is_added = tokenizer_is_added(a, id) && tokenizer_is_added(b, id);
		if (is.n && is_there.n && !is_added && !str_eq(is, is_there))
			return fail_token(m, draft, id, fail);
		if (!is.n != !is_there.n && n_missing++ == 0)
			first = id;
	}
	if (n_missing <= MOST_MISSING)
		return OK;
	return fail_at(fail, E_CONFIG, "draft_model", "draft_model has another vocabulary: only "
		       "one of %.120s and %.120s has token %d, and so with %d more. Name a smaller "
		       "model of the same kind", m->dir, draft->dir, (int)first,
		       (int)n_missing - 1);
}

void draft_model_taps(const struct model *m, const struct model *draft, int32_t out[EAGLE_TAPS])
{
	const struct eagle_settings *e = &draft->config.eagle;
	int32_t n = m->config.n_layers;
	const int32_t usual[EAGLE_TAPS] = {2, n / 2, n - 3};
	memcpy(out, e->taps[0] < 0 ? usual : e->taps, sizeof usual);
}

static enum status check_taps(const struct model *m, const struct model *draft, struct fail *fail)
{
	const struct model_config *c = &draft->config, *of = &m->config;
	int32_t taps[EAGLE_TAPS];
	if (of->streams.count)
		return fail_at(fail, E_CONFIG, "draft_model", "draft_model: %.200s reads the input "
			       "of three layers, and the layers of %.200s have several residual "
			       "streams", draft->dir, m->dir);
	if (c->eagle.taps[0] < 0 && of->n_layers < EAGLE_TAPS)
		return fail_at(fail, E_CONFIG, "draft_model", "draft_model: %.200s reads the input "
			       "of three layers, and %.200s has %d", draft->dir, m->dir,
			       (int)of->n_layers);
	draft_model_taps(m, draft, taps);
	for (int i = 0; i < EAGLE_TAPS; i++)
		if (taps[i] >= of->n_layers)
			return fail_at(fail, E_CONFIG, "draft_model", "draft_model: %.200s reads "
				       "the input of layer %d, and the last layer of %.200s is %d",
				       draft->dir, (int)taps[i], m->dir, (int)of->n_layers - 1);
	return OK;
}

static enum status check_head(const struct model *m, const struct model *draft, struct fail *fail)
{
	const struct model_config *c = &draft->config, *of = &m->config;
	if (c->eagle.dim != of->d_model || c->n_vocab != of->n_vocab)
		return fail_at(fail, E_CONFIG, "draft_model", "draft_model: %.200s is a head for "
			       "models of width %d with %d tokens, and %.200s has width %d and %d "
			       "tokens", draft->dir, (int)c->eagle.dim, (int)c->n_vocab, m->dir,
			       (int)of->d_model, (int)of->n_vocab);
	if (c->d_model != of->d_model && !model_has(draft, "embed_tokens"))
		return fail_at(fail, E_CONFIG, "draft_model", "draft_model: %.200s has no "
			       "embed_tokens, and cannot read those of %.200s: its width is %d, "
			       "theirs %d", draft->dir, m->dir, (int)c->d_model,
			       (int)of->d_model);
	/* Else logits of all tokens would meet a table of its own vocabulary. */
	if (c->tied_embeddings && c->eagle.vocab < c->n_vocab)
		return fail_at(fail, E_CONFIG, "draft_model", "draft_model: %.200s has no lm_head "
			       "for its own vocabulary of %d tokens: draft_vocab_size does not go "
			       "with tie_word_embeddings", draft->dir, (int)c->eagle.vocab);
	return check_taps(m, draft, fail);
}

enum status draft_model_check(const struct model *m, const struct model *draft,
			      struct fail *fail)
{
	const struct model_config *c = &draft->config;
	if (c->eagle.is_head)
		return check_head(m, draft, fail);
	const char *why = c->is_encoder		      ? "it is an encoder, which does not write"
			  : c->n_classes	      ? "it is a forced aligner"
			  : !c->has_head	      ? "it has no output head"
			  : c->n_linear > 0	      ? "its recurrent state cannot go back"
			  : c->ngram.n_tables > 0     ? "it reads n-grams"
						      : NULL;
	if (why)
		return fail_at(fail, E_CONFIG, "draft_model",
			       "draft_model: %.200s cannot draft: %s", draft->dir, why);
	return check_vocabulary(m, draft, fail);
}

struct draft_model *draft_model_create(const struct engine_graph *g, int n_pages, int max_tok)
{
	struct draft_model *d = xcalloc(1, sizeof *d);
	d->graph = *g;
	d->max_tok = max_tok;
	/* Rows that no step asks for are never touched and stay virtual. */
	d->logits = xmalloc(ENGINE_HIDDEN_ROWS * (size_t)g->n_out * sizeof *d->logits);
	d->has_page = xcalloc((size_t)n_pages, sizeof *d->has_page);
	return d;
}

void draft_model_destroy(struct draft_model *d)
{
	if (!d)
		return;
	d->graph.destroy(d->graph.ctx);
	free(d->logits);
	free(d->has_page);
	free(d);
}

enum status draft_model_run(struct draft_model *d, const struct engine_batch *b, int32_t *ids,
			    struct fail *fail)
{
	enum status st = d->graph.forward(d->graph.ctx, b, d->logits, fail);
	if (st == OK)
		graph_best_rows(d->graph.top(d->graph.ctx), d->logits, b->n_logit_rows,
				d->graph.n_out, ids);
	return st;
}
