/* SPDX-License-Identifier: Apache-2.0
 *
 * EAGLE-3 (2025, arXiv 2503.01840). The head is one layer, which drafts the token after the next
 * one:
 *
 *   f = Wfc [x of the model before three of its layers, of token p - 1]
 *   x = f;  x += attention([norm(embedding of token p); norm(f)]);  x += mlp(norm(x))
 *   logits = Whead norm(x);  f of the next draft token = x
 *
 * At the places of images and sounds the tower's rows stand for embeddings, if they are as wide.
 *
 * The head runs in each step of the model, behind it, for keys and values of all tokens
 * (eagle_fill). The rest is as with an MTP layer (mtp.c), whose memory it uses: rows of hidden
 * states, and a stand-in for the first token's. Its vocabulary is its own: token i is token
 * i + d2t[i] of the model.
 */
#include "engine/eagle.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/family.h"
#include "engine/graph_images.h"
#include "engine/mtp.h"

static void eagle_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->attention.in_dim = 2 * g->dim;
	l->mlp = family_mlp(g);
}

/* Its layer is run by the functions below. */
const struct family family_eagle = {.norms = {TWO_NORMS}, .layer = eagle_layer};

enum status eagle_tap_alloc(struct graph *g, struct fail *fail)
{
	size_t t = (size_t)g->limits.max_batch_tok;
	if (!g->limits.has_taps)
		return OK;
	enum status st = graph_alloc(g, EAGLE_TAPS * t * (size_t)g->dim * sizeof *g->taps.x,
				     &g->taps.x, fail);
	return st == OK ? graph_put_count(g, t, &g->taps.count, fail) : st;
}

enum status eagle_tap(struct graph *g, int i, const struct graph_step *s, struct fail *fail)
{
	size_t each = (size_t)g->limits.max_batch_tok * (size_t)g->dim;
	int32_t t = s->b->n_tok;
	for (int k = 0; g->limits.has_taps && k < EAGLE_TAPS; k++)
		if (g->limits.taps[k] == i)
			RUN(gather_rows, .n_rows = t, .dim = g->dim, .x = g->x,
			    .row = g->taps.count, .y = g->taps.x + (size_t)k * each);
	return OK;
}

enum status eagle_load(struct graph *g, struct fail *fail)
{
	struct mtp *m = &g->mtp;
	const struct eagle_settings *e = &g->c->eagle;
	const struct graph_part fc = {"fc", GRAPH_WEIGHT, g->dim, EAGLE_TAPS * e->dim, &m->fuse};
	const struct graph_part norm = {"hidden_norm.weight", GRAPH_NORM, g->dim, 0,
					&m->hidden_norm};
	enum status st = graph_load_parts(g, -1, &fc, 1, fail);
	if (st == OK)
		st = graph_load_parts(g, 0, &norm, 1, fail);
	m->head = g->head;
	if (st != OK || !model_has(g->m, "d2t"))
		return st;
	return model_choices(g->m, "d2t", e->vocab, 1, g->c->n_vocab, &g->eagle.d2t, fail);
}

/* The rows of taps.x in the order of the tokens, the three of each together. */
static enum status put_order(struct graph *g, struct fail *fail)
{
	int32_t t = g->limits.max_batch_tok, n = EAGLE_TAPS * t;
	int32_t *host = xmalloc((size_t)n * sizeof *host);
	for (int32_t i = 0; i < n; i++)
		host[i] = i % EAGLE_TAPS * t + i / EAGLE_TAPS;
	enum status st = graph_put(g, host, (size_t)n * sizeof *host, &g->eagle.order, fail);
	free(host);
	return st;
}

enum status eagle_alloc(struct graph *g, struct fail *fail)
{
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t wide = t * EAGLE_TAPS * (size_t)g->c->eagle.dim;
	const struct graph_want wanted[] = {
		{&g->eagle.wide, wide * sizeof *g->eagle.wide},
		{&g->eagle.in, wide * act},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	return st == OK ? put_order(g, fail) : st;
}

/* f of the step's tokens into the rows of hidden states. */
static enum status read_taps(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	int32_t t = s->b->n_tok, dim = g->c->eagle.dim;
	RUN(gather_rows, .n_rows = EAGLE_TAPS * t, .dim = dim, .x = g->limits.target->taps,
	    .row = g->eagle.order, .y = g->eagle.wide);
	RUN(to_act, .n_tok = t, .dim = EAGLE_TAPS * dim, .x = g->eagle.wide, .y = g->eagle.in);
	RUN(linear, .n_tok = t, .x = g->eagle.in, .n_out = 1,
	    .out = {{.w = &g->mtp.fuse, .y = g->mtp.x, .is_f32 = true}});
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->mtp.x,
	    .y = mtp_hidden_at(g, ENGINE_HIDDEN_ROWS));
	return OK;
}

/* x = f, and attention up to its output. */
static enum status run_mixer(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	const struct mtp *m = &g->mtp;
	const struct layer *l = &g->layers[0];
	int32_t t = s->b->n_tok, d = g->dim;
	/* Hidden states are looked up as embeddings are. */
	const struct weight hidden = mtp_hidden_table(g);
	TRY(graph_images_embed(g, s, m->h, fail));
	RUN(embed_rows, .n_tok = t, .table = &hidden, .token = s->ids.hidden, .x = g->x,
	    .scale = 1);
	RUN(rms_norm, .n_tok = t, .dim = d, .eps = g->eps, .x = m->h,
	    .weight = l->norms[NORM_MIXER], .y = m->both, .y_pitch = 2 * d);
	RUN(rms_norm, .n_tok = t, .dim = d, .eps = g->eps, .x = g->x, .weight = m->hidden_norm,
	    .y_pitch = 2 * d, .y = (char *)m->both + (size_t)d * dtype_bytes(g->b->act_type));
	PART(attend_project, .in = m->both);
	PART(attend_see);
	return OK;
}

enum status eagle_fill(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	int32_t t = MIN(s->b->n_logit_rows, ENGINE_HIDDEN_ROWS);
	profile_layer(g->b->profile, -1);
	TRY(read_taps(g, s, fail));
	TRY(run_mixer(g, s, fail));
	/* The next step finds them there; this one has read those of the last. */
	RUN(gather_rows, .n_rows = t, .dim = g->dim, .x = g->mtp.x,
	    .row = s->ids.logit_rows, .y = g->rows);
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->rows, .y = mtp_hidden_at(g, 0));
	return OK;
}

enum status eagle_run(struct graph *g, const struct graph_step *s, void **out,
		      struct fail *fail)
{
	const struct layer *l = &g->layers[0];
	int32_t t = s->b->n_tok;
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, t);
	*out = g->rows_n;
	TRY(run_mixer(g, s, fail));
	PART(attend_out);
	PART(mlp_run, .m = &l->mlp, .norm = &between);
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x,
	    .y = mtp_hidden_at(g, ENGINE_HIDDEN_ROWS + g->limits.max_batch_tok));
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->x, .weight = g->out_norm,
	    .y = g->rows_n);
	return OK;
}
