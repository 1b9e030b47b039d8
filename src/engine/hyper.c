/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections: several residual streams instead of one (arch_qwen4.c has the formulas,
 * kernels/ops/hyper.h the operations). A part of a layer reads g->n and adds to g->x, as
 * parts of other models do. Here g->n is the gated mean of the streams, and g->x begins at
 * 0. What is then in g->x goes to all streams.
 *
 * With hyper_iters (arch_deepseek_v4.c) g->n is the layer's norm of a sum of the streams. The
 * streams are mixed with each other when g->x goes to them.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "engine/graph.h"

static const char *const names[HYPER_PARTS] = {
	[HYPER_MIXER] = "attn_hyper_connection", [HYPER_MLP] = "mlp_hyper_connection",
	[HYPER_LAST] = "hyper_connection_mixer"};

static const char *const own_names[HYPER_PARTS] = {
	[HYPER_MIXER] = "attn_hc.", [HYPER_MLP] = "ffn_hc.", [HYPER_LAST] = "hc_head.hc_"};

/* Loads doubly stochastic gates. HYPER_LAST has fewer, because no part follows it. */
static enum status load_balanced(struct graph *g, int i, enum hyper_part part, struct hyper *h,
				 struct fail *fail)
{
	const struct model_config *c = g->c;
	bool is_last = part == HYPER_LAST;
	int32_t n = is_last ? c->hyper_n : (2 + c->hyper_n) * c->hyper_n;
	char name[3][80];
	static const char *const kinds[] = {"fn", "base", "scale"};
	for (int k = 0; k < 3; k++)
		snprintf(name[k], sizeof name[k], "%s%s", own_names[part], kinds[k]);
	const struct graph_part parts[] = {
		{name[0], GRAPH_ROWS, n, c->hyper_n * c->d_model, &h->fn},
		{name[1], GRAPH_VECTOR, n, 0, &h->base},
		{name[2], GRAPH_VECTOR, is_last ? 1 : 3, 0, &h->scale},
	};
	return graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
}

static enum status load(struct graph *g, int i, enum hyper_part part, struct hyper *h,
			struct fail *fail)
{
	const struct model_config *c = g->c;
	int32_t wide = c->hyper_n * c->d_model;
	if (c->hyper_iters)
		return load_balanced(g, i, part, h, fail);
	char name[4][80];
	static const char *const kinds[] = {"hc_norm.weight", "input_mix_weight_down",
					    "input_mix_weight_up", "block_inject_weight"};
	for (int k = 0; k < 4; k++)
		snprintf(name[k], sizeof name[k], "%s.%s", names[part], kinds[k]);
	const struct graph_part parts[] = {
		{name[0], GRAPH_NORM, wide, 0, &h->norm},
		{name[1], GRAPH_WEIGHT, c->hyper_rank, wide, &h->down},
		{name[2], GRAPH_WEIGHT, wide, c->hyper_rank, &h->up},
		{name[3], GRAPH_WEIGHT, c->hyper_n, wide, &h->inject},
	};
	return graph_load_parts(g, i, parts, part == HYPER_LAST ? 3 : 4, fail);
}

enum status hyper_load_top(struct graph *g, struct fail *fail)
{
	return load(g, -1, HYPER_LAST, &g->hyper.last, fail);
}

enum status hyper_load(struct graph *g, int i, struct fail *fail)
{
	enum status st = load(g, i, HYPER_MIXER, &g->layers[i].hyper[HYPER_MIXER], fail);
	if (st != OK)
		return st;
	return load(g, i, HYPER_MLP, &g->layers[i].hyper[HYPER_MLP], fail);
}

enum status hyper_alloc(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct hyper_scratch *r = &g->hyper;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t wide = t * (size_t)c->hyper_n * (size_t)c->d_model;
	size_t low = t * (size_t)c->hyper_rank, n = (size_t)c->hyper_n;
	size_t t_own = c->hyper_iters ? t : 0;
	const struct graph_want wanted[] = {
		{&r->x, wide * sizeof *r->x},
		{&r->n, wide * act},
		{&r->wide, (c->hyper_iters ? 1 : wide) * sizeof *r->wide},
		{&r->low, low * sizeof *r->low + 1},
		{&r->low_n, low * act + 1},
		{&r->inject, t * n * sizeof *r->inject},
		{&r->mix, t_own * (2 + n) * n * sizeof *r->mix + 1},
		{&r->gates, t_own * (1 + n) * n * sizeof *r->gates + 1},
		{&r->in, t_own * (size_t)c->d_model * sizeof *r->in + 1},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK && t_own)
		st = graph_put_filled(g, 1, n * (size_t)c->d_model, &r->ones, fail);
	return st;
}

enum status hyper_begin(struct graph *g, int32_t t, struct fail *fail)
{
	RUN(hyper_add, .n_tok = t, .n_streams = g->c->hyper_n, .dim = g->c->d_model, .y = g->x,
	    .x = g->hyper.x);
	return OK;
}

static enum status mix(struct graph *g, const struct hyper *h, bool is_last, const void *add,
		       int32_t t, struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct hyper_scratch *r = &g->hyper;
	RUN(rms_norm, .n_tok = t * c->hyper_n, .dim = c->d_model, .eps = c->norm_eps, .x = r->x,
	    .add = add, .weight = h->norm, .n_weights = c->hyper_n, .y = r->n);
	RUN(linear, .n_tok = t, .x = r->n, .n_out = is_last ? 1 : 2,
	    .out = {{.w = &h->down, .y = r->low, .is_f32 = true},
		    {.w = &h->inject, .y = r->inject, .is_f32 = true}});
	RUN(hyper_low, .n_tok = t, .dim = c->hyper_rank, .n_streams = c->hyper_n, .x = r->low,
	    .y = r->low_n);
	RUN(linear, .n_tok = t, .x = r->low_n, .n_out = 1,
	    .out = {{.w = &h->up, .y = r->wide, .is_f32 = true}});
	RUN(hyper_mix, .n_tok = t, .n_streams = c->hyper_n, .dim = c->d_model, .gate = r->wide,
	    .n = r->n, .y = is_last ? NULL : g->n, .x = g->x);
	return OK;
}

/* Writes the sum of the streams to y, and the gates for the part that follows. is_last: only the
 * sum, to g->x. */
static enum status split(struct graph *g, const struct hyper *h, bool is_last, int32_t t,
			 struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct hyper_scratch *r = &g->hyper;
	int32_t wide = c->hyper_n * c->d_model;
	RUN(rms_norm, .n_tok = t, .dim = wide, .eps = c->norm_eps, .x = r->x, .weight = r->ones,
	    .y = r->n);
	RUN(linear, .n_tok = t, .x = r->n, .n_out = 1,
	    .out = {{.w = &h->fn, .y = r->mix, .is_f32 = true}});
	RUN(hyper_split, .n_tok = t, .n_streams = c->hyper_n, .dim = c->d_model,
	    .n_iters = c->hyper_iters, .eps = c->hyper_eps, .mix = r->mix, .scale = h->scale,
	    .base = h->base, .x = r->x, .y = is_last ? g->x : r->in,
	    .sum = is_last ? NULL : g->x, .gates = is_last ? NULL : r->gates);
	return OK;
}

static enum status enter_balanced(struct graph *g, const struct layer *l, enum hyper_part part,
				  int32_t t, struct fail *fail)
{
	enum status st = split(g, &l->hyper[part], false, t, fail);
	if (st != OK)
		return st;
	RUN(rms_norm, .n_tok = t, .dim = g->c->d_model, .eps = g->c->norm_eps, .x = g->hyper.in,
	    .weight = l->norms[part == HYPER_MIXER ? NORM_MIXER : NORM_MLP], .y = g->n);
	return OK;
}

enum status hyper_enter(struct graph *g, const struct layer *l, enum hyper_part part,
			const void *add, int32_t t, struct fail *fail)
{
	return g->c->hyper_iters ? enter_balanced(g, l, part, t, fail)
				 : mix(g, &l->hyper[part], false, add, t, fail);
}

enum status hyper_leave(struct graph *g, int32_t t, struct fail *fail)
{
	if (g->c->hyper_iters) {
		RUN(hyper_spread, .n_tok = t, .n_streams = g->c->hyper_n, .dim = g->c->d_model,
		    .gates = g->hyper.gates, .y = g->x, .x = g->hyper.x);
		return OK;
	}
	RUN(hyper_add, .n_tok = t, .n_streams = g->c->hyper_n, .dim = g->c->d_model,
	    .gate = g->hyper.inject, .y = g->x, .x = g->hyper.x);
	return OK;
}

enum status hyper_end(struct graph *g, int32_t t, struct fail *fail)
{
	return g->c->hyper_iters ? split(g, &g->hyper.last, true, t, fail)
				 : mix(g, &g->hyper.last, true, NULL, t, fail);
}
