/* SPDX-License-Identifier: Apache-2.0
 *
 * The MTP layer (multi-token prediction), which drafts the token after the next one:
 *
 *   x = Wfuse [norm(embedding of token p); norm(hidden state behind token p - 1)]
 *   x += attention(norm(x));  x += mlp(norm(x));  hidden = norm(x);  logits = Whead hidden
 *
 * At the places of images and sounds the tower's rows stand for embeddings, as in the model.
 *
 * A hidden state is what the output head reads: the output of the last norm of the model, or of
 * this layer. So the layer runs on its own result for one draft token more. Its attention sees all
 * earlier tokens: each step fills in keys and values for the tokens it has. The first token of a
 * sequence has no hidden state before it; its own stands in.
 *
 * Sources: DeepSeek-V3 Technical Report, 2024, eq. 21 to 23, with the two parts in the order
 * of the checkpoints; vLLM's descriptions qwen3_next_mtp and deepseek_mtp. Others disagree which
 * hidden state DeepSeek means, before or after the norm. It changes how many draft tokens are
 * right, never an answer.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/eagle.h"
#include "engine/family.h"
#include "engine/graph_images.h"
#include "engine/mtp.h"

enum status mtp_load(struct graph *g, struct fail *fail)
{
	struct mtp *m = &g->mtp;
	int32_t d = g->c->d_model;
	const struct graph_part parts[] = {
		{"eh_proj", GRAPH_WEIGHT, d, 2 * d, &m->fuse},
		{"enorm.weight", GRAPH_NORM, d, 0, &m->embed_norm},
		{"hnorm.weight", GRAPH_NORM, d, 0, &m->hidden_norm},
		{"shared_head.norm.weight", GRAPH_NORM, d, 0, &m->out_norm},
	};
	if (!g->limits.mtp)
		return OK;
	if (g->limits.target)
		return eagle_load(g, fail);
	m->head = graph_cut_head(g);
	if (g->streams.count)
		return mtp_streams_load(g, fail);
	return graph_load_parts(g, g->c->n_layers, parts, ARRAY_LEN(parts), fail);
}

/* Numbers of a hidden state. */
static int32_t hidden_dim(const struct graph *g)
{
	return g->c->d_model * MAX(g->streams.count, 1);
}

enum status mtp_alloc(struct graph *g, struct fail *fail)
{
	struct mtp *m = &g->mtp;
	size_t t = (size_t)g->limits.max_batch_tok, d = (size_t)g->c->d_model;
	size_t act = dtype_bytes(g->b->act_type), wide = (size_t)hidden_dim(g);
	size_t own = g->streams.count ? 1 : d; /* streams have memory of their own */
	const struct graph_want wanted[] = {
		{&m->hidden, (2 * ENGINE_HIDDEN_ROWS + t) * wide * act},
		{&m->x, t * d * sizeof *m->x},
		{&m->h, t * own * sizeof *m->h},
		{&m->both, t * 2 * own * act},
	};
	if (!g->limits.mtp)
		return OK;
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK && g->limits.target)
		st = eagle_alloc(g, fail);
	if (st != OK || g->measured)
		return st;
	if (!g->limits.target && !g->streams.count)
		g->rows_n = m->hidden;
	if (!g->top)
		m->host = calloc(ENGINE_HIDDEN_ROWS * (size_t)m->head.n, sizeof *m->host);
	return g->top || m->host ? OK : E_NOMEM;
}

void *mtp_hidden_at(const struct graph *g, int32_t row)
{
	return (char *)g->mtp.hidden + (size_t)row * (size_t)hidden_dim(g) *
					       dtype_bytes(g->b->act_type);
}

struct weight mtp_hidden_table(const struct graph *g)
{
	int32_t d = hidden_dim(g);
	bool is_f32 = g->b->act_type == DTYPE_F32;
	return (struct weight){.quant = is_f32 ? QUANT_F32 : QUANT_F16, .k = d, .group = d,
			       .q = g->mtp.hidden,
			       .n = 2 * ENGINE_HIDDEN_ROWS + g->limits.max_batch_tok};
}

/* Makes x of the tokens, and runs the layer's mixer. g->x is this layer's x. */
static enum status run_mixer(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	const struct mtp *m = &g->mtp;
	int32_t t = s->b->n_tok, d = g->c->d_model;
	/* Hidden states are looked up as embeddings are. */
	const struct weight hidden = mtp_hidden_table(g);
	TRY(graph_images_embed(g, s, m->x, fail));
	RUN(embed_rows, .n_tok = t, .table = &hidden, .token = s->ids.hidden, .x = m->h,
	    .scale = 1);
	RUN(rms_norm, .n_tok = t, .dim = d, .eps = g->c->norm_eps, .x = m->x,
	    .weight = m->embed_norm, .y = m->both, .y_pitch = 2 * d);
	RUN(rms_norm, .n_tok = t, .dim = d, .eps = g->c->norm_eps, .x = m->h,
	    .weight = m->hidden_norm, .y_pitch = 2 * d,
	    .y = (char *)m->both + (size_t)d * dtype_bytes(g->b->act_type));
	RUN(linear, .n_tok = t, .x = m->both, .n_out = 1,
	    .out = {{.w = &m->fuse, .y = m->x, .is_f32 = true}});
	return g->family->mix(g, &g->layers[g->n_layers], s, fail);
}

/* x: what the model's last norm reads. */
static enum status fill_layer(struct graph *g, const struct graph_step *s, float *x,
			      struct fail *fail)
{
	int32_t t = s->b->n_tok;
	RUN(rms_norm, .n_tok = t, .dim = g->c->d_model, .eps = g->c->norm_eps, .x = x,
	    .weight = g->out_norm, .y = mtp_hidden_at(g, ENGINE_HIDDEN_ROWS));
	return run_mixer(g, s, fail);
}

static enum status run_layer(struct graph *g, const struct graph_step *s, void **out,
			     struct fail *fail)
{
	int32_t t = s->b->n_tok;
	*out = mtp_hidden_at(g, ENGINE_HIDDEN_ROWS + g->limits.max_batch_tok);
	TRY(run_mixer(g, s, fail));
	TRY(g->family->feed(g, &g->layers[g->n_layers], s, fail));
	RUN(rms_norm, .n_tok = t, .dim = g->c->d_model, .eps = g->c->norm_eps, .x = g->x,
	    .weight = g->mtp.out_norm, .y = *out);
	return OK;
}

enum status mtp_fill(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	float *x = g->x;
	if (!g->limits.mtp)
		return OK;
	if (g->limits.target)
		return eagle_fill(g, s, fail);
	profile_layer(g->b->profile, -1);
	profile_enter(g->b->profile, PROFILE_HEAD);
	g->x = g->mtp.x;
	enum status st = g->streams.count ? mtp_streams_fill(g, s, fail)
					  : fill_layer(g, s, x, fail);
	g->x = x;
	return st;
}

enum status mtp_run(struct graph *g, const struct graph_step *s, void **out,
		    struct fail *fail)
{
	float *x = g->x;
	if (g->limits.target)
		return eagle_run(g, s, out, fail);
	g->x = g->mtp.x;
	enum status st = (g->streams.count ? mtp_streams_run : run_layer)(g, s, out, fail);
	g->x = x;
	return st;
}
