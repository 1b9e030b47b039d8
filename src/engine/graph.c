/* SPDX-License-Identifier: Apache-2.0
 *
 *   x = embed[token]
 *   each layer, as its family says (families/)
 *   logits = Whead norm(x), for the rows that are wanted
 */
#include "engine/graph_calls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "engine/eagle.h"
#include "engine/family.h"
#include "engine/graph_lora.h"
#include "engine/graph_move.h"
#include "engine/graph_images.h"
#include "engine/mtp.h"
#include "engine/rope.h"
#include "engine/step_ids.h"
#include "model/model_left.h"

enum status graph_op_failed(const struct graph *g, const char *op, int32_t n_tok,
			    enum status st, struct fail *fail)
{
	if (n_tok == 0) /* try_step */
		return fail_set(fail, st, "%s cannot run this model: %s: %s", g->b->device,
				op, backend_why(g->b, st));
	return fail_set(fail, st, "%s: %s of %d tokens failed: %s", g->b->device, op,
			n_tok, backend_why(g->b, st));
}

/* --- loading and memory ----------------------------------------------------------- */

static enum status load_norms(struct graph *g, int i, struct fail *fail)
{
	struct layer *l = &g->layers[i];
	enum status st = OK;
	for (int n = 0; n < GRAPH_NORMS && st == OK; n++) {
		char name[80];
		if (!l->norm_names[n])
			continue;
		snprintf(name, sizeof name, "%s.weight", l->norm_names[n]);
		const struct graph_part norm = {name, GRAPH_NORM, g->dim, 0, &l->norms[n]};
		st = graph_load_parts(g, i, &norm, 1, fail);
	}
	return st;
}

static enum status load_state(struct graph *g, int i, struct fail *fail)
{
	switch (g->layers[i].delta.kind) {
	case DELTA_NET:
		return delta_load(g, i, fail);
	case DELTA_KDA:
		return kda_load(g, i, fail);
	case DELTA_MAMBA:
		return mamba_load(g, i, fail);
	case DELTA_CONV:
		return conv_load(g, i, fail);
	case DELTA_NONE:
		break;
	}
	return OK;
}

static enum status load_scale(struct graph *g, int i, struct fail *fail)
{
	char name[200];
	const float *scale;
	enum status st = model_vector(g->m, graph_layer_name(g, i, "layer_scalar", name), 1,
				      &scale, fail);
	if (st == OK)
		g->layers[i].scale = *scale;
	return st;
}

/* Loads the parts that layer i has. */
static enum status load_layer(struct graph *g, int i, struct fail *fail)
{
	struct layer *l = &g->layers[i];
	TRY(load_norms(g, i, fail));
	if (l->attention.n_heads)
		TRY(attend_load(g, i, fail));
	if (l->mla.n_heads)
		TRY(mla_load(g, i, fail));
	if (l->compressed.n_heads)
		TRY(compressed_load(g, i, fail));
	if (l->indexer.n_heads)
		TRY(indexer_load(g, i, fail));
	TRY(load_state(g, i, fail));
	if (l->mlp.dim)
		TRY(mlp_load(g, i, &l->mlp, fail));
	if (l->experts.n)
		TRY(moe_load(g, i, fail));
	if (g->streams.count)
		TRY(streams_load(g, i, fail));
	if (l->ngram.is_here)
		TRY(ngram_load(g, i, fail));
	if (g->embeds.width)
		TRY(layer_embed_load(g, i, fail));
	if (l->has_scale)
		TRY(load_scale(g, i, fail));
	return g->family->load ? g->family->load(g, i, fail) : OK;
}

static enum status load_all(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	char head[200];
	const struct graph_part body[] = {
		{"embed_tokens", GRAPH_WEIGHT, c->n_vocab, c->d_model, &g->embed},
		{"norm.weight", GRAPH_NORM, c->d_model, 0, &g->out_norm},
	};
	/* A model that ends with gated means of its streams has no last norm. */
	bool has_norm = !g->streams.count || g->streams.n_iters;
	/* A head that drafts may lack a table of tokens: it reads the model's. */
	bool has_table = !g->limits.target || graph_layer_has(g, -1, "embed_tokens");
	if (!has_table)
		g->embed = *g->limits.target->embed;
	enum status st = graph_load_parts(g, -1, body + !has_table,
					  (has_norm ? 2 : 1) - !has_table, fail);
	g->head = g->embed;
	bool has_head = !g->limits.gives_rows;
	/* Transformers calls a head of classes so. */
	bool is_score = c->n_classes && model_has(g->m, "score.weight");
	snprintf(head, sizeof head, "%s%s", c->prefix, is_score ? "score" : "lm_head");
	if (c->tied_embeddings)
		graph_layer_name(g, -1, "embed_tokens", head);
	if (st == OK && has_head && (!c->tied_embeddings || g->b->int8_head))
		st = graph_load_head(g, head, fail);
	if (st == OK && g->embeds.width)
		st = layer_embed_load_top(g, fail);
	if (st == OK && g->streams.count)
		st = streams_load_last(g, -1, &g->streams.last, fail);
	/* d2t is of a vocabulary that is cut already, in an order of its own. */
	if (st == OK && g->limits.drafts && !model_has(g->m, "d2t"))
		g->head = graph_cut_head(g);
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++)
		st = load_layer(g, i, fail);
	if (st == OK)
		st = mtp_load(g, fail);
	return st == OK && has_head ? model_left_check(g->m, fail) : st;
}

static size_t ids_count(const struct graph *g)
{
	size_t t = (size_t)g->limits.max_batch_tok, b = (size_t)g->limits.max_seqs;
	size_t size = (size_t)g->limits.page_size;
	size_t n_alone = g->limits.alone_ctx ? ENGINE_DRAFT_TOK : 0;
	size_t n_scale = rope_has_attn_temp(g->c) ? t : 0;
	size_t n_replay = g->limits.n_states ? b * GRAPH_REPLAY_IDS : 0;
	size_t n_lora = g->limits.n_loras ? t : 0;
	size_t n_block = (g->block_ratio[0] ? t : 0) + (g->block_ratio[1] ? t : 0);
	size_t n_axes = graph_images_has_axes(g) ? 3 * t : 0;
	return n_replay + n_scale + n_block + step_ids_words(&(struct step_counts){
		.n_tok = t, .n_seq = MAX(b, n_alone), .n_row = t, .n_state = b,
		.n_mtp = g->limits.mtp ? t : 0, .n_lora = n_lora,
		.n_rope = n_axes, .n_block = g->block_ratio[0] ? n_axes : 0,
		.n_seen = graph_images_is_bidirectional(g) ? t : 0,
		.n_page = b * DIV_UP((size_t)g->limits.n_ctx, size) +
			  n_alone * DIV_UP((size_t)g->limits.alone_ctx, size)});
}

/* Memory for what goes to the device with each step, and for what comes back. */
static enum status alloc_shared(struct graph *g, size_t n_rows, struct fail *fail)
{
	void *p;
	if (g->measured) {
		*g->measured += (int64_t)(ids_count(g) * sizeof *g->ids +
					  n_rows * sizeof *g->top);
		return OK;
	}
	enum status st = g->b->ops->alloc_shared(g->b, ids_count(g) * sizeof *g->ids, &p);
	if (st == OK)
		g->ids_host = p;
	g->replay_at = (int32_t)(ids_count(g) - (size_t)g->limits.max_seqs * GRAPH_REPLAY_IDS);
	bool has_top = g->b->is_far && !g->limits.gives_rows;
	if (st == OK && has_top && g->c->n_vocab <= LOGITS_TOP_MAX_VOCAB) {
		st = g->b->ops->alloc_shared(g->b, n_rows * sizeof *g->top, &p);
		g->top = st == OK ? p : NULL;
	}
	return st == OK ? OK : fail_set(fail, st, "%s has no memory to share", g->b->device);
}

static enum status alloc_parts(struct graph *g, struct fail *fail)
{
	static enum status (*const of_state[])(struct graph *, struct fail *) = {
		[DELTA_NET] = delta_alloc, [DELTA_KDA] = kda_alloc, [DELTA_MAMBA] = mamba_alloc,
		[DELTA_CONV] = conv_alloc};
	enum delta_kind kind = DELTA_NONE;
	for (int i = 0; i < g->n_layers; i++)
		kind = MAX(kind, g->layers[i].delta.kind);
	TRY(attend_alloc(g, fail));
	TRY(mla_alloc(g, fail));
	TRY(compressed_alloc(g, fail));
	TRY(indexer_alloc(g, fail));
	if (kind != DELTA_NONE)
		TRY(of_state[kind](g, fail));
	TRY(mlp_alloc(g, fail));
	TRY(moe_alloc(g, fail));
	if (g->embeds.width)
		TRY(layer_embed_alloc(g, fail));
	if (g->streams.count)
		TRY(streams_alloc(g, fail));
	if (g->ngrams.n_tables)
		TRY(ngram_alloc(g, fail));
	return g->family->alloc ? g->family->alloc(g, fail) : OK;
}

static enum status alloc_scratch(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t d = (size_t)c->d_model;
	size_t rows = MIN(t, GRAPH_LOGIT_ROWS);
	size_t n_logits = g->limits.gives_rows ? 1 : rows * (size_t)MAX(c->n_vocab, c->n_classes);
	const char *const *norms = g->family->norms;
	bool has_post = norms[NORM_MIXER_POST] || norms[NORM_MLP_POST];
	const struct graph_want wanted[] = {
		{&g->ids, ids_count(g) * sizeof *g->ids},
		{&g->x, t * d * sizeof *g->x},
		{&g->n, t * d * act},
		{&g->part, has_post ? t * d * sizeof *g->part : 1},
		{&g->rows, rows * d * sizeof *g->rows},
		{&g->rows_n, rows * d * act},
		{&g->logits, n_logits * sizeof *g->logits},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	for (int32_t r = 0; r < c->n_ropes && st == OK; r++) {
		size_t half = (size_t)model_n_rot(c, r) / 2;
		const struct graph_want rope[] = {
			{&g->inv_freq[r], half * sizeof **g->inv_freq},
			{&g->rope[r], t * half * 2 * sizeof **g->rope},
		};
		st = graph_take_all(g, rope, ARRAY_LEN(rope), fail);
	}
	if (st == OK)
		st = alloc_shared(g, rows, fail);
	if (st == OK)
		st = alloc_parts(g, fail);
	if (st == OK)
		st = eagle_tap_alloc(g, fail);
	if (st == OK)
		st = graph_images_alloc(g, fail);
	if (st == OK)
		st = graph_lora_alloc(g, fail);
	if (st == OK)
		st = graph_move_alloc(g, fail);
	return st == OK ? mtp_alloc(g, fail) : st;
}

static enum status upload_frequencies(struct graph *g)
{
	enum status st = OK;
	for (int32_t r = 0; r < g->c->n_ropes && st == OK; r++) {
		int n = model_n_rot(g->c, r) / 2;
		double *freq = xmalloc((size_t)n * sizeof *freq);
		rope_frequencies(&g->c->ropes[r], g->limits.n_ctx, n, freq);
		st = g->b->ops->upload(g->b, g->inv_freq[r], freq,
				       (size_t)n * sizeof *freq);
		if (st == OK && r + 1 < g->c->n_ropes) /* an upload may still be reading it */
			st = g->b->ops->sync(g->b, NULL);
		free(freq);
	}
	return st;
}

/* --- a step ------------------------------------------------------------------------ */

/* How many sequences the batch has on the device, and the width of its page table. */
static void set_shape(const struct graph *g, struct graph_step *s)
{
	int32_t size = g->limits.page_size;
	s->n_seq = s->is_alone ? s->b->n_tok : s->b->n_seq;
	s->max_pages_per_seq = MIN(DIV_UP(s->n_ctx_max, size), s->b->max_pages_per_seq);
}

/* Takes n words of the step's block for an array, and writes it from src, unless that is NULL.
 * Returns where the array will be on the device. */
static const void *step_put(struct graph *g, const void *src, size_t n)
{
	int32_t at = g->n_ids;
	g->n_ids += (int32_t)n;
	if (src)
		memcpy(g->ids_host + at, src, n * sizeof *g->ids_host);
	return g->ids + at;
}

/* Where the host writes an array that step_put has placed. */
static void *step_host(const struct graph *g, const void *on_device)
{
	return g->ids_host + ((const int32_t *)on_device - g->ids);
}

/* The sequences that attention sees, with a row of the page table for each. Where draft tokens are
 * alone, each token is a sequence with the row of its stream. */
static void put_seqs(struct graph *g, struct graph_step *s)
{
	const struct engine_batch *b = s->b;
	struct graph_ids *out = &s->ids;
	size_t n_tok = (size_t)b->n_tok, n_seq = (size_t)s->n_seq;
	size_t width = (size_t)s->max_pages_per_seq;
	out->seq_of = step_put(g, b->seq_of, n_tok);
	out->slot = step_put(g, b->slot, n_tok);
	out->first_tok = step_put(g, s->is_alone ? NULL : b->first_tok, n_seq + 1);
	out->page_table = step_put(g, NULL, n_seq * width);
	int32_t *table = step_host(g, out->page_table), *first = step_host(g, out->first_tok);
	int32_t *seq_of = step_host(g, out->seq_of);
	for (int32_t i = 0; i < s->n_seq; i++) {
		int32_t from = s->is_alone ? b->seq_of[i] : i;
		memcpy(table + (size_t)i * width,
		       b->page_table + (size_t)from * (size_t)b->max_pages_per_seq,
		       width * sizeof *table);
		if (s->is_alone)
			first[i] = seq_of[i] = i;
	}
	if (s->is_alone)
		first[s->n_seq] = s->n_seq;
}

/* The first position of each token's block of `ratio` positions. */
static const int32_t *put_block_starts(struct graph *g, const struct engine_batch *b,
				       int32_t ratio)
{
	const int32_t *on = step_put(g, NULL, (size_t)b->n_tok);
	int32_t *start = step_host(g, on);
	for (int32_t t = 0; t < b->n_tok; t++)
		start[t] = b->position[t] - b->position[t] % ratio;
	return on;
}

static const float *put_attn_temps(struct graph *g, const struct engine_batch *b)
{
	const float *on = step_put(g, NULL, (size_t)b->n_tok);
	float *scale = step_host(g, on);
	for (int32_t t = 0; t < b->n_tok; t++)
		scale[t] = rope_attn_temp(g->c, b->position[t]);
	return on;
}

/* Writes the ids where the device fetches them as the step begins, and notes where they will be
 * on the device. Their order: the tokens first, which moe_router reads there. */
static void put_ids(struct graph *g, struct graph_step *s)
{
	const struct engine_batch *b = s->b;
	struct graph_ids *out = &s->ids;
	size_t n_tok = (size_t)b->n_tok, n_row = (size_t)b->n_logit_rows;
	size_t n_state = g->limits.n_states ? (size_t)b->n_seq : 0;
	g->n_ids = 0;
	set_shape(g, s);
	out->token = step_put(g, b->token, n_tok);
	out->position = step_put(g, b->position, n_tok);
	put_seqs(g, s);
	out->logit_rows = step_put(g, b->logit_rows, n_row);
	out->inv_t = step_put(g, b->inv_t, n_row);
	out->states.from = step_put(g, b->states.from, n_state);
	out->states.to = step_put(g, b->states.to, n_state);
	out->states.save = step_put(g, b->states.save, n_state);
	out->states.save_at = step_put(g, b->states.save_at, n_state);
	out->hidden = step_put(g, b->hidden, g->limits.mtp ? n_tok : 0);
	out->rope_position = step_put(g, b->rope_position,
				      graph_images_has_axes(g) ? 3 * n_tok : 0);
	out->last_seen = step_put(g, b->last_seen, graph_images_is_bidirectional(g) ? n_tok : 0);
	out->lora = step_put(g, b->lora, b->has_lora ? n_tok : 0);
	out->lora_scale = step_put(g, b->lora_scale, b->has_lora ? n_tok : 0);
	if (rope_has_attn_temp(g->c))
		out->q_scale = put_attn_temps(g, b);
	if (g->block_ratio[0] && graph_images_has_axes(g))
		out->block_start = step_put(g, b->block_position, 3 * n_tok);
	else if (g->block_ratio[0])
		out->block_start = put_block_starts(g, b, g->block_ratio[0]);
	if (g->block_ratio[1])
		out->heavy_start = put_block_starts(g, b, g->block_ratio[1]);
	assert((size_t)g->n_ids <= ids_count(g));
}

/* Makes the logits of rows [r, r + t) in g->logits, and their best and sums in g->top. */
static enum status run_logits(struct graph *g, const struct graph_step *s, int32_t r,
			      int32_t t, struct fail *fail)
{
	const struct graph_ids *ids = &s->ids;
	profile_layer(g->b->profile, -1);
	profile_enter(g->b->profile, PROFILE_HEAD);
	/* A decode step wants the logits of every token: their rows lie in order already. */
	bool is_all = s->b->n_logit_rows == s->b->n_tok;
	if (!is_all)
		RUN(gather_rows, .n_rows = t, .dim = g->c->d_model, .x = g->x,
		    .row = ids->logit_rows + r, .y = g->rows);
	float *x = is_all ? g->x + (size_t)r * (size_t)g->c->d_model : g->rows;
	if (g->out_norm && g->family->has_layer_norms)
		RUN(layer_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = x,
		    .weight = g->out_norm, .y = g->rows_n);
	else if (g->out_norm)
		RUN(rms_norm, .n_tok = t, .dim = g->c->d_model, .eps = g->c->norm_eps, .x = x,
		    .weight = g->out_norm, .y = g->rows_n);
	else
		RUN(to_act, .n_tok = t, .dim = g->c->d_model, .x = x, .y = g->rows_n);
	if (g->limits.gives_rows)
		return OK;
	RUN(linear, .n_tok = t, .x = g->rows_n, .n_out = 1,
	    .out = {{.w = &g->head, .y = g->logits, .is_f32 = true}});
	if (g->c->logit_cap != 0)
		RUN(logits_cap, .n_rows = t, .n_vocab = g->head.n, .cap = g->c->logit_cap,
		    .x = g->logits);
	if (g->has_top)
		RUN(logits_top, .n_rows = t, .n_vocab = g->head.n,
		    .logits = g->logits, .inv_t = ids->inv_t + r, .out = g->top);
	return OK;
}

enum status graph_add(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct graph_add *a, struct fail *fail)
{
	int32_t t = s->b->n_tok;
	if (!a->post) {
		LINEAR(.n_tok = t, .x = a->in, .n_out = 1,
		       .out = {{.w = a->w, .bias = a->bias, .y = g->x, .adds = true}},
		       .next = a->next);
		return OK;
	}
	LINEAR(.n_tok = t, .x = a->in, .n_out = 1,
	       .out = {{.w = a->w, .bias = a->bias, .y = g->part, .is_f32 = true}});
	RUN(rms_norm, .n_tok = t, .dim = g->dim,
	    .eps = g->c->post_eps > 0 ? g->c->post_eps : g->eps, .x = g->part,
	    .weight = a->post, .sum = g->x, .sum_scale = a->scale);
	return OK;
}

struct rms_norm_args graph_norm(const struct graph *g, const struct layer *l,
				enum graph_norm which, int32_t t)
{
	return (struct rms_norm_args){.n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->x,
				      .weight = l->norms[which], .y = g->n};
}

void graph_enter_attention(struct graph *g, const struct graph_step *s, int32_t window,
			   size_t n_bytes)
{
	double n_read = 0;
	profile_enter(g->b->profile, PROFILE_ATTENTION);
	for (int i = 0; g->b->profile && i < s->b->n_seq; i++)
		n_read += window ? MIN(window, s->b->n_ctx[i]) : s->b->n_ctx[i];
	profile_bytes(g->b->profile, PROFILE_ATTENTION,
		      n_read * (double)n_bytes);
}

static enum status run_ropes(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	int32_t t = s->b->n_tok;
	for (int32_t r = 0; r < g->c->n_ropes; r++)
		RUN(rope_table, .n_tok = t, .n_freq = model_n_rot(g->c, r) / 2,
		    .position = g->images.rope_axis ? s->ids.rope_position : s->ids.position,
		    .axis = g->images.rope_axis, .inv_freq = g->inv_freq[r],
		    .table = g->rope[r], .scale = g->rope_factor[r]);
	if (g->layers[0].compressed.n_heads)
		return compressed_begin(g, s, fail);
	return indexer_begin(g, s, fail);
}

static enum status run_layer(struct graph *g, int i, const struct graph_step *s,
			     struct fail *fail)
{
	profile_layer(g->b->profile, i);
	profile_enter(g->b->profile, PROFILE_QKV);
	if (g->family->run) {
		TRY(g->family->run(g, &g->layers[i], s, fail));
	} else {
		TRY(g->family->mix(g, &g->layers[i], s, fail));
		TRY(g->family->feed(g, &g->layers[i], s, fail));
	}
	return graph_images_add(g, s, i, fail);
}

/* All that a step queues up to its first piece of logits: what may be recorded. */
static enum status run_step(struct graph *g, const struct graph_step *s,
			    struct fail *fail)
{
	int32_t t = s->b->n_tok;
	enum status st = OK;
	RUN(copy_words, .n = g->n_ids, .x = g->ids_host, .y = g->ids);
	if (!g->limits.target)
		st = graph_images_embed(g, s, g->x, fail);
	if (st == OK)
		st = run_ropes(g, s, fail);
	if (st == OK && g->family->begin)
		st = g->family->begin(g, s, fail);
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		st = eagle_tap(g, i, s, fail);
		if (st == OK)
			st = run_layer(g, i, s, fail);
	}
	if (st == OK && g->family->end)
		st = g->family->end(g, s, fail);
	if (st == OK)
		st = mtp_fill(g, s, fail);
	if (st == OK && s->b->n_logit_rows && !g->limits.target)
		st = run_logits(g, s, 0, MIN(GRAPH_LOGIT_ROWS, s->b->n_logit_rows),
				fail);
	return st;
}

/* Logits of draft tokens into g->logits, the best of each into g->top. */
static enum status run_draft(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	int32_t t = s->b->n_tok;
	void *hidden;
	RUN(copy_words, .n = g->n_ids, .x = g->ids_host, .y = g->ids);
	enum status st = run_ropes(g, s, fail);
	if (st == OK)
		st = mtp_run(g, s, &hidden, fail);
	if (st != OK)
		return st;
	RUN(linear, .n_tok = t, .x = hidden, .n_out = 1,
	    .out = {{.w = &g->mtp.head, .y = g->logits, .is_f32 = true}});
	if (g->top)
		RUN(logits_top, .n_rows = t, .n_vocab = g->mtp.head.n, .logits = g->logits,
		    .inv_t = s->ids.inv_t, .out = g->top);
	return OK;
}

/* A step of no tokens: nothing is computed, but an operation that the backend cannot do in the
 * model's shapes fails now and not at the first request. */
static enum status try_step(struct graph *g, struct fail *fail)
{
	const int32_t *ids = g->ids;
	const float *inv_t = (const float *)g->ids;
	struct engine_batch none = {.n_tok = 0, .has_lora = g->lora != NULL};
	struct graph_step s = {
		.b = &none,
		.ids = {.token = ids, .position = ids, .seq_of = ids, .slot = ids,
			.first_tok = ids, .page_table = ids, .logit_rows = ids,
			.inv_t = inv_t, .hidden = ids, .rope_position = ids,
			.last_seen = ids, .block_start = ids, .heavy_start = ids,
			.lora = ids, .lora_scale = inv_t,
			.q_scale = rope_has_attn_temp(g->c) ? inv_t : NULL,
			.states = {ids, ids, ids, ids}}};
	g->has_top = g->top != NULL;
	enum status st = run_step(g, &s, fail);
	if (st == OK && g->limits.mtp)
		st = run_draft(g, &s, fail);
	return st == OK ? run_logits(g, &s, 0, 0, fail) : st;
}

/* For gives_rows: copies rows of the last norm to rows_host as they are computed. */
static enum status bring_rows(struct graph *g, const struct graph_step *s,
			      struct fail *fail)
{
	size_t n_bytes = (size_t)g->c->d_model * dtype_bytes(g->b->act_type);
	int32_t n_rows = s->b->n_logit_rows;
	enum status st = OK;
	for (int32_t r = 0, n; r < n_rows && st == OK; r += n) {
		n = MIN(GRAPH_LOGIT_ROWS, n_rows - r);
		if (r > 0)
			st = run_logits(g, s, r, n, fail);
		if (st == OK)
			st = g->b->ops->download(g->b, (char *)g->rows_host +
						 (size_t)r * n_bytes,
						 g->rows_n, (size_t)n * n_bytes);
	}
	return st;
}

/* Copies all logits to the host, unless the best of them suffice, which are there already
 * (g->top). The first piece has been run. */
static enum status bring_logits(struct graph *g, const struct graph_step *s,
				float *logits, struct fail *fail)
{
	size_t n_vocab = (size_t)g->head.n;
	int32_t n_rows = s->b->n_logit_rows;
	enum status st = OK;
	for (int32_t r = 0, n; r < n_rows && st == OK && !g->has_top; r += n) {
		n = MIN(GRAPH_LOGIT_ROWS, n_rows - r);
		if (r > 0)
			st = run_logits(g, s, r, n, fail);
		if (st == OK)
			st = g->b->ops->download(g->b, logits + (size_t)r * n_vocab,
						 g->logits,
						 (size_t)n * n_vocab * sizeof *logits);
	}
	return st;
}

static const struct logits_top *top(void *ctx)
{
	const struct graph *g = ctx;
	return g->has_top ? g->top : NULL;
}

static enum status graph_fetch(void *ctx, int32_t i, float *logits)
{
	struct graph *g = ctx;
	size_t n_vocab = (size_t)g->head.n;
	enum status st = g->b->ops->download(g->b, logits, g->logits + (size_t)i * n_vocab,
					     n_vocab * sizeof *logits);
	metric_add(METRIC_LOGIT_FETCHES, 1);
	return st == OK ? g->b->ops->sync(g->b, NULL) : st;
}

static enum status forward(void *ctx, const struct engine_batch *b, float *logits,
			   struct fail *fail)
{
	struct graph *g = ctx;
	struct graph_step s = {.b = b};
	bool is_new, is_again;
	g->kept_tok = b->has_drafts ? b->n_tok : 0;
	g->has_top = g->top && b->n_logit_rows > 0 && b->n_logit_rows <= GRAPH_LOGIT_ROWS;
	const struct graph_shape shape = graph_shape_of(g->id, &g->limits, b);
	s.n_ctx_max = shape.n_ctx_max;
	s.is_alone = shape.is_alone;
	/* Such steps are not recorded: a watched one waits in its middle, and a replayed one
	 * would not tell when its stages begin. */
	bool is_measured = !g->limits.drafts && profile_begin(g->b->profile);
	uint64_t key = g->watch || (is_measured && g->b->profile->device) ? 0 : shape.key;
	put_ids(g, &s);
	if (g->ngrams.n_tables)
		ngram_read(g, b);
	enum status st = g->b->ops->step_begin(g->b, key, &is_new);
	if (st == OK && is_new)
		st = run_step(g, &s, fail);
	enum status end = g->b->ops->step_end(g->b, &is_again);
	st = st == OK ? end : st;
	if (st == OK && is_again)
		st = run_step(g, &s, fail);
	profile_enter(g->b->profile, PROFILE_HOST);
	if (st == OK && !g->limits.target)
		st = g->limits.gives_rows ? bring_rows(g, &s, fail)
					  : bring_logits(g, &s, logits, fail);
	/* The backend knows where the device failed. */
	enum status synced = g->b->ops->sync(g->b, st == OK || st == E_DEVICE ? fail : NULL);
	st = st == OK ? synced : st;
	if (!g->limits.drafts)
		profile_end(g->b->profile, b->n_tok, st == OK);
	if (st == OK && g->limits.gives_rows)
		for (size_t i = 0; i < (size_t)b->n_logit_rows * (size_t)g->c->d_model; i++)
			logits[i] = blocks_float(g->rows_host, g->b->act_type, i);
	return st;
}

int32_t graph_best(const float *logits, int32_t n)
{
	int32_t best = 0;
	for (int32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

void graph_best_rows(const struct logits_top *top, const float *logits, int32_t n_rows, int32_t n,
		     int32_t *out)
{
	for (int32_t i = 0; i < n_rows; i++)
		out[i] = !top ? graph_best(logits + (size_t)i * (size_t)n, n)
			 : top[i].n > 0 ? top[i].id[0] : 0;
}

static enum status draft_tokens(void *ctx, const struct engine_batch *b, int32_t *ids,
			 struct fail *fail)
{
	struct graph *g = ctx;
	struct graph_step s = {.b = b};
	size_t n_vocab = (size_t)g->mtp.head.n;
	bool is_new, is_again; /* key 0: it is not recorded */
	for (int i = 0; i < b->n_seq; i++)
		s.n_ctx_max = MAX(s.n_ctx_max, b->n_ctx[i]);
	g->has_top = false; /* g->top is of the last step */
	put_ids(g, &s);
	enum status st = g->b->ops->step_begin(g->b, 0, &is_new);
	if (st == OK)
		st = run_draft(g, &s, fail);
	enum status end = g->b->ops->step_end(g->b, &is_again);
	st = st == OK ? end : st;
	if (st == OK && !g->top)
		st = g->b->ops->download(g->b, g->mtp.host, g->logits,
					 (size_t)b->n_tok * n_vocab * sizeof *g->logits);
	/* The backend knows where the device failed. */
	enum status synced = g->b->ops->sync(g->b, st == OK || st == E_DEVICE ? fail : NULL);
	st = st == OK ? synced : st;
	if (st == OK)
		graph_best_rows(g->top, g->mtp.host, b->n_tok, (int32_t)n_vocab, ids);
	for (int i = 0; i < b->n_tok && st == OK && g->eagle.d2t; i++)
		ids[i] += g->eagle.d2t[ids[i]];
	return st;
}

static enum status copy_page(void *ctx, int32_t dst, int32_t src)
{
	struct graph *g = ctx;
	enum status st = OK;
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++) {
		const struct layer *l = &g->layers[i];
		struct kv_copy_args a = {.n_kv_heads = l->page_heads, .head_dim = l->page_dim,
					 .dst = dst, .src = src, .kv = graph_pages(g, l)};
		if (l->compressed.n_heads)
			st = compressed_copy_page(g, l, dst, src);
		else if (l->k_pages)
			st = g->b->ops->kv_copy(g->b, &a);
		if (st == OK && l->indexer.blocks)
			st = indexer_copy_page(g, l, dst, src);
	}
	return st;
}

/* The function for engine_graph.replay. */
static enum status replay_states(void *ctx, const struct engine_replay *r)
{
	struct graph *g = ctx;
	/* Each sequence has its own ids, since those of another may not have been read yet. */
	int32_t at = g->replay_at + r->i_seq * GRAPH_REPLAY_IDS, t = r->n_tok;
	const int32_t ids[GRAPH_REPLAY_IDS] = {0, t, r->from, r->to, r->save, r->save_at};
	const int32_t *on = g->ids + at;
	const struct graph_ids where = {.first_tok = on,
					.states = {on + 2, on + 3, on + 4, on + 5}};
	struct fail *fail = NULL;
	enum status st = OK;
	memcpy(g->ids_host + at, ids, sizeof ids);
	RUN(copy_words, .n = GRAPH_REPLAY_IDS, .x = g->ids_host + at, .y = g->ids + at);
	for (int i = 0; i < g->n_layers && st == OK; i++)
		st = g->family->replay(g, &g->layers[i], r, &where, fail);
	return st;
}

static void watch_routers(void *ctx, engine_watch_fn fn, void *fn_ctx)
{
	struct graph *g = ctx;
	g->watch = fn;
	g->watch_ctx = fn_ctx;
}

/* --- life -------------------------------------------------------------------------- */

static void destroy_graph(void *ctx)
{
	struct graph *g = ctx;
	for (size_t i = 0; i < g->n_blocks; i++)
		g->b->ops->free(g->b, g->blocks[i]);
	free(g->blocks);
	graph_lora_free(g);
	free(g->expert_weights);
	free(g->head_memory);
	free(g->rows_host);
	free(g->images.deep_host);
	free(g->mtp.host);
	for (int i = 0; i < graph_n_layers(g); i++)
		ngram_free(&g->layers[i].ngram);
	free(g->ngrams.row);
	g->b->ops->free_shared(g->b, g->ngrams.host);
	g->b->ops->free_shared(g->b, g->ids_host);
	g->b->ops->free_shared(g->b, g->top);
	free(g->layers);
	free(g);
}

/* What the family says of the model and its layers. */
static void describe(struct graph *g)
{
	if (g->family->model)
		g->family->model(g);
	for (int i = 0; i < graph_n_layers(g); i++) {
		struct layer *l = &g->layers[i];
		memcpy(l->norm_names, g->family->norms, sizeof l->norm_names);
		g->family->layer(g, i, l);
		if (l->indexer.n_heads && !l->indexer.is_pooled)
			g->block_ratio[0] = l->indexer.ratio;
		if (l->compressed.n_heads) {
			g->block_ratio[0] = l->compressed.index_ratio;
			g->block_ratio[1] = l->compressed.heavy_ratio;
		}
	}
}

static struct graph *create_empty(struct model *m, struct backend *b,
				  const struct family *family, const struct graph_limits *limits)
{
	struct graph *g = xcalloc(1, sizeof *g);
	g->c = &m->config;
	g->m = m;
	g->b = b;
	g->dim = m->config.d_model;
	g->n_layers = limits->target ? 0 : m->config.n_layers; /* its only one drafts */
	g->eps = m->config.norm_eps;
	g->family = family;
	g->limits = *limits;
	for (int r = 0; r < MODEL_MAX_ROPES; r++)
		g->rope_factor[r] = 1;
	g->layers = xcalloc((size_t)graph_n_layers(g), sizeof *g->layers);
	describe(g);
	g->limits.alone_ctx = limits->n_states || g->ngrams.n_tables ? 0 : b->alone_ctx;
	return g;
}

int64_t graph_measure(struct model *m, struct backend *b, const struct family *family,
		      const struct graph_limits *limits)
{
	struct graph *g = create_empty(m, b, family, limits);
	int64_t n_bytes = 0;
	g->measured = &n_bytes;
	/* Nothing is allocated, so nothing can fail. */
	enum status st = alloc_scratch(g, NULL);
	assert(st == OK);
	(void)st;
	free(g->layers);
	free(g);
	return n_bytes;
}

static struct weight *expert_weights(const struct graph *g)
{
	return calloc((size_t)graph_n_layers(g) * 3 * (size_t)g->c->n_experts + 1,
		      sizeof *g->expert_weights);
}

bool graph_mtp_lacks(struct model *m, const struct family *family, char out[200])
{
	struct backend none = {.ops = NULL};
	const struct graph_limits limits = {.mtp = true};
	if (!m->config.mtp)
		return false;
	struct graph *g = create_empty(m, &none, family, &limits);
	g->probed = out;
	g->expert_weights = expert_weights(g);
	enum status st = g->expert_weights ? load_layer(g, g->c->n_layers, NULL) : E_NOMEM;
	if (st == OK)
		st = mtp_load(g, NULL);
	free(g->expert_weights);
	free(g->layers);
	free(g);
	return st == E_CONFIG;
}

enum status graph_check_loras(struct model *m, const struct family *family,
			      const struct graph_limits *limits, struct fail *fail)
{
	struct backend none = {.ops = NULL};
	struct graph *g = create_empty(m, &none, family, limits);
	enum status st = graph_lora_match(g, fail);
	free(g->layers);
	free(g);
	return st;
}

enum status graph_create(struct model *m, struct backend *b, const struct family *family,
			 const struct graph_limits *limits, struct engine_graph *out,
			 struct fail *fail)
{
	struct graph *g = create_empty(m, b, family, limits);
	g->id = graph_shape_new_id();
	g->expert_weights = expert_weights(g);
	if (limits->gives_rows) {
		size_t n = (size_t)limits->max_batch_tok * (size_t)g->c->d_model;
		g->rows_host = calloc(n, dtype_bytes(b->act_type));
	}
	bool has_memory = g->expert_weights && (!limits->gives_rows || g->rows_host);
	enum status st = has_memory ? OK : E_NOMEM;
	g->n_to_load = model_weight_bytes(m) + (limits->mtp ? model_mtp_bytes(m) : 0);
	b->on_stored = graph_tell_loaded;
	b->on_stored_ctx = g;
	if (st == OK && b->ops->load_begin)
		b->ops->load_begin(b, m);
	if (st == OK)
		st = load_all(g, fail);
	if (st == OK && b->ops->load_end)
		st = b->ops->load_end(b, fail);
	b->on_stored = NULL;
	if (st == OK)
		st = alloc_scratch(g, fail);
	if (st == OK)
		st = upload_frequencies(g);
	if (st == OK)
		st = graph_images_begin(g);
	if (st == OK)
		st = graph_move_begin(g);
	if (st == OK)
		st = try_step(g, fail);
	if (st == OK || st == E_DEVICE) /* the backend knows where the device failed */
		st = b->ops->sync(b, fail);
	if (st != OK) {
		destroy_graph(g);
		return fail_default(fail, st);
	}
	*out = (struct engine_graph){
		.ctx = g, .n_vocab = g->c->n_vocab, .max_ctx = limits->n_ctx,
		.n_out = limits->gives_rows ? g->c->d_model : g->head.n,
		.n_states = limits->n_states, .few_tok = b->few_tok,
		.alone_ctx = g->limits.alone_ctx, .block_ratio = g->block_ratio[0],
		.forward = forward, .destroy = destroy_graph,
		.copy_page = copy_page, .move = graph_move, .move_wait = graph_move_wait,
		.alloc_pinned = b->ops->alloc_pinned ? graph_alloc_pinned : NULL,
		.free_pinned = graph_free_pinned,
		.replay = family->replay ? replay_states : NULL,
		.page_bytes = graph_move_bytes(g, false),
		.state_bytes = graph_move_bytes(g, true), .top = top, .fetch = graph_fetch,
		.draft = limits->mtp ? draft_tokens : NULL, .watch_routers = watch_routers,
		.embed = &g->embed, .taps = g->taps.x};
	return OK;
}
