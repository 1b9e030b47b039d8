/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections: several residual streams instead of one (families/qwen4.c has the formulas,
 * kernels/ops/hyper.h the operations). A part of a layer reads g->n and adds to g->x, as
 * parts of other models do. Here g->n is the gated mean of the streams, and g->x begins at
 * 0. What is then in g->x goes to all streams.
 *
 * With n_iters (families/deepseek_v4.c) g->n is the layer's norm of a sum of the streams. The
 * streams are mixed with each other when g->x goes to them.
 */
#include "engine/parts/streams.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

static const char *const names[STREAMS_PARTS] = {
	[STREAMS_MIXER] = "attn_hyper_connection", [STREAMS_MLP] = "mlp_hyper_connection",
	[STREAMS_LAST] = "hyper_connection_mixer"};

static const char *const own_names[STREAMS_PARTS] = {
	[STREAMS_MIXER] = "attn_hc.", [STREAMS_MLP] = "ffn_hc.", [STREAMS_LAST] = "hc_head.hc_"};

/* Loads doubly stochastic gates. STREAMS_LAST has fewer, because no part follows it. */
static enum status load_balanced(struct graph *g, int i, enum streams_part part,
				 struct stream_gates *h, struct fail *fail)
{
	bool is_last = part == STREAMS_LAST;
	int32_t n = is_last ? g->streams.count : (2 + g->streams.count) * g->streams.count;
	char name[3][80];
	static const char *const kinds[] = {"fn", "base", "scale"};
	for (int k = 0; k < 3; k++)
		snprintf(name[k], sizeof name[k], "%s%s", own_names[part], kinds[k]);
	const struct graph_part parts[] = {
		{name[0], GRAPH_ROWS, n, g->streams.count * g->dim, &h->fn},
		{name[1], GRAPH_VECTOR, n, 0, &h->base},
		{name[2], GRAPH_VECTOR, is_last ? 1 : 3, 0, &h->scale},
	};
	return graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
}

static enum status load_gates(struct graph *g, int i, enum streams_part part,
			      struct stream_gates *h, struct fail *fail)
{
	int32_t wide = g->streams.count * g->dim;
	if (g->streams.n_iters)
		return load_balanced(g, i, part, h, fail);
	char name[4][80];
	static const char *const kinds[] = {"hc_norm.weight", "input_mix_weight_down",
					    "input_mix_weight_up", "block_inject_weight"};
	for (int k = 0; k < 4; k++)
		snprintf(name[k], sizeof name[k], "%s.%s", names[part], kinds[k]);
	const struct graph_part parts[] = {
		{name[0], GRAPH_NORM, wide, 0, &h->norm},
		{name[1], GRAPH_WEIGHT, g->streams.rank, wide, &h->down},
		{name[2], GRAPH_WEIGHT, wide, g->streams.rank, &h->up},
		{name[3], GRAPH_WEIGHT, g->streams.count, wide, &h->inject},
	};
	return graph_load_parts(g, i, parts, part == STREAMS_LAST ? 3 : 4, fail);
}

enum status streams_load_last(struct graph *g, int i, struct stream_gates *h, struct fail *fail)
{
	if (g->streams.has_plain_end)
		return OK;
	return load_gates(g, i, STREAMS_LAST, h, fail);
}

enum status streams_load(struct graph *g, int i, struct fail *fail)
{
	enum status st = load_gates(g, i, STREAMS_MIXER, &g->layers[i].gates[STREAMS_MIXER], fail);
	if (st != OK)
		return st;
	return load_gates(g, i, STREAMS_MLP, &g->layers[i].gates[STREAMS_MLP], fail);
}

enum status streams_alloc(struct graph *g, struct fail *fail)
{
	struct streams_scratch *r = &g->streams;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t wide = t * (size_t)g->streams.count * (size_t)g->dim;
	size_t low = t * (size_t)g->streams.rank, n = (size_t)g->streams.count;
	size_t t_own = g->streams.n_iters ? t : 0;
	const struct graph_want wanted[] = {
		{&r->x, wide * sizeof *r->x},
		{&r->n, wide * act},
		{&r->wide, (g->streams.n_iters ? 1 : wide) * sizeof *r->wide},
		{&r->low, low * sizeof *r->low + 1},
		{&r->low_n, low * act + 1},
		{&r->inject, t * n * sizeof *r->inject},
		{&r->mix, t_own * (2 + n) * n * sizeof *r->mix + 1},
		{&r->gates, t_own * (1 + n) * n * sizeof *r->gates + 1},
		{&r->in, t_own * (size_t)g->dim * sizeof *r->in + 1},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK && t_own)
		st = graph_put_filled(g, 1, n * (size_t)g->dim, &r->ones, fail);
	if (st == OK && r->has_plain_end)
		st = graph_put_filled(g, 0, t * n, &r->zeros, fail);
	if (st == OK && r->has_plain_end) /* sigmoid(-log(S - 1)) = 1 / S */
		st = graph_put_filled(g, -logf((float)(n - 1)), n, &r->even, fail);
	return st;
}

enum status streams_begin(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	int32_t t = s->b->n_tok;
	RUN(hyper_add, .n_tok = t, .n_streams = g->streams.count, .dim = g->dim, .y = g->x,
	    .x = g->streams.x);
	return OK;
}

static enum status streams_mix(struct graph *g, const struct stream_gates *h, bool is_last,
			       const void *add, int32_t t, struct fail *fail)
{
	const struct streams_scratch *r = &g->streams;
	RUN(rms_norm, .n_tok = t * g->streams.count, .dim = g->dim, .eps = g->eps, .x = r->x,
	    .add = add, .weight = h->norm, .n_weights = g->streams.count, .y = r->n);
	RUN(linear, .n_tok = t, .x = r->n, .n_out = is_last ? 1 : 2,
	    .out = {{.w = &h->down, .y = r->low, .is_f32 = true},
		    {.w = &h->inject, .y = r->inject, .is_f32 = true}});
	RUN(hyper_low, .n_tok = t, .dim = g->streams.rank, .n_streams = r->count, .x = r->low,
	    .y = r->low_n);
	RUN(linear, .n_tok = t, .x = r->low_n, .n_out = 1,
	    .out = {{.w = &h->up, .y = r->wide, .is_f32 = true}});
	RUN(hyper_mix, .n_tok = t, .n_streams = r->count, .dim = g->dim, .gate = r->wide,
	    .n = r->n, .y = is_last ? NULL : g->n, .x = g->x);
	return OK;
}

/* Writes the sum of the streams to y, and the gates for the part that follows. is_last: only the
 * sum, to g->x. */
static enum status streams_split(struct graph *g, const struct stream_gates *h, bool is_last,
				 int32_t t, struct fail *fail)
{
	const struct streams_scratch *r = &g->streams;
	int32_t wide = g->streams.count * g->dim;
	RUN(rms_norm, .n_tok = t, .dim = wide, .eps = g->eps, .x = r->x, .weight = r->ones,
	    .y = r->n);
	RUN(linear, .n_tok = t, .x = r->n, .n_out = 1,
	    .out = {{.w = &h->fn, .y = r->mix, .is_f32 = true}});
	RUN(hyper_split, .n_tok = t, .n_streams = g->streams.count, .dim = g->dim,
	    .n_iters = g->streams.n_iters, .eps = g->streams.eps, .mix = r->mix, .scale = h->scale,
	    .base = h->base, .x = r->x, .y = is_last ? g->x : r->in,
	    .sum = is_last ? NULL : g->x, .gates = is_last ? NULL : r->gates);
	return OK;
}

static enum status enter_balanced(struct graph *g, const struct layer *l, int32_t t,
				  const struct streams_enter *x, struct fail *fail)
{
	enum status st = streams_split(g, &l->gates[x->part], false, t, fail);
	if (st != OK)
		return st;
	RUN(rms_norm, .n_tok = t, .dim = g->dim, .eps = g->eps, .x = g->streams.in,
	    .weight = x->norm, .y = g->n);
	return OK;
}

enum status streams_enter(struct graph *g, const struct layer *l, const struct graph_step *s,
			const struct streams_enter *x, struct fail *fail)
{
	return g->streams.n_iters ? enter_balanced(g, l, s->b->n_tok, x, fail)
				: streams_mix(g, &l->gates[x->part], false, x->add, s->b->n_tok,
					      fail);
}

enum status streams_leave(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	const struct streams_scratch *r = &g->streams;
	int32_t t = s->b->n_tok;
	if (r->n_iters)
		RUN(hyper_spread, .n_tok = t, .n_streams = r->count, .dim = g->dim,
		    .gates = r->gates, .y = g->x, .x = r->x);
	else
		RUN(hyper_add, .n_tok = t, .n_streams = r->count, .dim = g->dim,
		    .gate = r->inject, .y = g->x, .x = r->x);
	return OK;
}

enum status streams_mean(struct graph *g, const struct stream_gates *h, int32_t t,
			 struct fail *fail)
{
	return streams_mix(g, h, true, NULL, t, fail);
}

/* Writes the mean of the streams to x: a sum with gates 1 / S. */
static enum status end_plain(struct graph *g, int32_t t, struct fail *fail)
{
	const struct streams_scratch *r = &g->streams;
	RUN(hyper_split, .n_tok = t, .n_streams = r->count, .dim = g->dim, .n_iters = r->n_iters,
	    .mix = r->zeros, .scale = r->ones, .base = r->even, .x = r->x, .y = g->x);
	return OK;
}

enum status streams_end(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	const struct stream_gates *h = &g->streams.last;
	if (g->streams.has_plain_end)
		return end_plain(g, s->b->n_tok, fail);
	return g->streams.n_iters ? streams_split(g, h, true, s->b->n_tok, fail)
				: streams_mean(g, h, s->b->n_tok, fail);
}
