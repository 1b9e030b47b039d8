/* SPDX-License-Identifier: Apache-2.0
 *
 * The MTP layer of a model with S residual streams of D numbers (Qwen4-Exp):
 *
 *   h (S D) = norm(all streams behind token p - 1), one norm of S D numbers
 *   e (D) = Wembed norm(embedding of token p);  x[s] = e + Whidden h[s]
 *   a layer with hyper-connections, attention and experts, without n-grams
 *   logits = Whead (the gated mean of x, by gates of its own)
 *
 * Rows of hidden states hold h. The streams behind the layer give h of the next draft token. The
 * rest is as in mtp.c.
 *
 * Sources: vLLM's qwen4_exp/nvidia/mtp.py; llama.cpp's qwen4exp.cpp, where Wembed and Whidden are
 * one matrix. llama.cpp's layer sees all positions. vLLM's sees those that the indexer of the layer
 * chooses, and so it is here where the files have that indexer.
 */
#include "engine/family.h"
#include "engine/graph_images.h"
#include "engine/mtp.h"

static enum status load_half(struct graph *g, int half, struct weight *out, struct fail *fail)
{
	char name[200];
	struct weight host;
	int32_t d = g->dim;
	graph_layer_name(g, g->n_layers, "eh_proj", name);
	TRY(model_weight_half(g->m, name, d, d, half, &host, fail));
	TRY(g->b->ops->load_weight(g->b, &host, out, fail));
	graph_tell_loaded(g, weight_bytes(&host));
	return OK;
}

enum status mtp_streams_load(struct graph *g, struct fail *fail)
{
	struct mtp *m = &g->mtp;
	int32_t d = g->dim, wide = g->streams.count * d;
	const struct graph_part norms[] = {
		{"enorm.weight", GRAPH_NORM, d, 0, &m->embed_norm},
		{"hnorm.weight", GRAPH_NORM, wide, 0, &m->hidden_norm},
	}, apart[] = {
		{"fc_embedding", GRAPH_WEIGHT, d, d, &m->embed_fc},
		{"fc_hidden", GRAPH_WEIGHT, d, d, &m->hidden_fc},
	};
	TRY(graph_load_parts(g, g->n_layers, norms, ARRAY_LEN(norms), fail));
	TRY(streams_load_last(g, g->n_layers, &m->last, fail));
	if (g->c->mtp == MTP_APART)
		return graph_load_parts(g, g->n_layers, apart, ARRAY_LEN(apart), fail);
	if (g->probed) /* find_mtp found eh_proj */
		return OK;
	TRY(load_half(g, 0, &m->embed_fc, fail));
	return load_half(g, 1, &m->hidden_fc, fail);
}

/* h of the t streams in the step, to hidden rows from `row` on. */
static enum status keep_streams(struct graph *g, int32_t t, int32_t row, struct fail *fail)
{
	RUN(rms_norm, .n_tok = t, .dim = g->streams.count * g->dim, .eps = g->eps,
	    .x = g->streams.x, .weight = g->mtp.hidden_norm, .y = mtp_hidden_at(g, row));
	return OK;
}

/* The rows of `from` that `row` names, to y (T, S D) act. */
static enum status look_up(struct graph *g, const struct weight *from, const int32_t *row,
			   int32_t t, void *y, struct fail *fail)
{
	RUN(embed_rows, .n_tok = t, .table = from, .token = row, .x = g->streams.wide, .scale = 1);
	RUN(to_act, .n_tok = t, .dim = from->k, .x = g->streams.wide, .y = y);
	return OK;
}

/* Makes the streams of the tokens, and runs the layer's mixer. g->x is this layer's x. */
static enum status run_mixer(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	const struct mtp *m = &g->mtp;
	const struct streams_scratch *r = &g->streams;
	const struct weight hidden = mtp_hidden_table(g);
	int32_t t = s->b->n_tok;
	TRY(look_up(g, &hidden, s->ids.hidden, t, r->n, fail));
	TRY(graph_images_embed(g, s, g->x, fail));
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->x,
	    .weight = m->embed_norm, .y = g->n);
	RUN(linear, .n_tok = t, .x = g->n, .n_out = 1,
	    .out = {{.w = &m->embed_fc, .y = g->x, .is_f32 = true}});
	RUN(hyper_add, .n_tok = t, .n_streams = r->count, .dim = g->dim, .y = g->x, .x = r->x);
	RUN(linear, .n_tok = t * r->count, .x = r->n, .n_out = 1,
	    .out = {{.w = &m->hidden_fc, .y = r->x, .adds = true}});
	return g->family->mix(g, &g->layers[g->n_layers], s, fail);
}

enum status mtp_streams_fill(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	struct weight rows = mtp_hidden_table(g);
	rows.q = mtp_hidden_at(g, ENGINE_HIDDEN_ROWS);
	rows.n = g->limits.max_batch_tok;
	TRY(keep_streams(g, s->b->n_tok, ENGINE_HIDDEN_ROWS, fail));
	TRY(run_mixer(g, s, fail));
	/* The next step finds them there; this one has read those of the last. */
	return look_up(g, &rows, s->ids.logit_rows, MIN(s->b->n_logit_rows, ENGINE_HIDDEN_ROWS),
		       mtp_hidden_at(g, 0), fail);
}

enum status mtp_streams_run(struct graph *g, const struct graph_step *s, void **out,
			    struct fail *fail)
{
	int32_t t = s->b->n_tok;
	*out = g->rows_n;
	TRY(run_mixer(g, s, fail));
	TRY(g->family->feed(g, &g->layers[g->n_layers], s, fail));
	TRY(keep_streams(g, t, ENGINE_HIDDEN_ROWS + g->limits.max_batch_tok, fail));
	TRY(streams_mean(g, &g->mtp.last, t, fail));
	RUN(to_act, .n_tok = t, .dim = g->dim, .x = g->x, .y = *out);
	return OK;
}
