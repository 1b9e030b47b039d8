/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/parts/moe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

static int32_t in_dim_of(const struct graph *g, const struct moe *m)
{
	return m->in_dim ? m->in_dim : g->dim;
}

/* --- weights and memory -------------------------------------------------------------- */

/* gate_up_proj_bias alternates a gate's and an up's, as the rows do. */
static enum status load_biases(struct graph *g, int i, const struct moe *m,
			       struct experts *ex, struct fail *fail)
{
	size_t n = (size_t)m->n * (size_t)m->dim;
	const float *both;
	char name[200];
	const struct graph_part down = {"mlp.experts.down_proj_bias", GRAPH_MATRIX,
					m->n, g->dim, &ex->down_bias};
	const struct graph_part apart[] = {
		{"mlp.experts.gate_proj_bias", GRAPH_MATRIX, m->n, m->dim,
		 &ex->gate_bias},
		{"mlp.experts.up_proj_bias", GRAPH_MATRIX, m->n, m->dim,
		 &ex->up_bias},
		down,
	};
	if (graph_layer_has(g, i, apart[0].name)) /* GGUF */
		return graph_load_parts(g, i, apart, 3, fail);
	graph_layer_name(g, i, "mlp.experts.gate_up_proj_bias", name);
	enum status st = model_matrix(g->m, name, m->n, 2 * m->dim, &both,
				      fail);
	if (st != OK)
		return st;
	float *split = xmalloc(2 * n * sizeof *split);
	for (size_t j = 0; j < 2 * n; j++)
		split[j % 2 * n + j / 2] = both[j];
	st = graph_put_floats(g, split, n, &ex->gate_bias, fail);
	if (st == OK)
		st = graph_put_floats(g, split + n, n, &ex->up_bias, fail);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, fail);
	free(split);
	return st == OK ? graph_load_parts(g, i, &down, 1, fail) : st;
}

static enum status load_each(struct graph *g, int i, const struct moe *m,
			     struct weight *w, struct fail *fail)
{
	int32_t f = m->dim, n = m->n, d = in_dim_of(g, m);
	enum status st = OK;
	for (int32_t e = 0; e < n && st == OK; e++) {
		char names[3][80];
		static const char *const kinds[] = {"gate", "up", "down"};
		for (int j = 0; j < 3; j++)
			snprintf(names[j], sizeof names[j], "mlp.experts.%d.%s_proj", e,
				 kinds[j]);
		const struct graph_part parts[] = {
			{names[0], GRAPH_EXPERT, f, d, &w[e]},
			{names[1], GRAPH_EXPERT, f, d, &w[n + e]},
			{names[2], GRAPH_EXPERT, d, f, &w[2 * n + e]},
		};
		int first = m->is_ungated;
		st = graph_load_parts(g, i, parts + first, ARRAY_LEN(parts) - (size_t)first,
				      fail);
		if (first)
			w[e] = w[n + e];
	}
	return st;
}

/* Loads the table of each token's experts, if there is one. */
static enum status load_fixed(struct graph *g, int i, struct moe *m,
			      struct fail *fail)
{
	int32_t n_vocab = g->embed.n;
	char name[200];
	int32_t *host;
	size_t n = (size_t)n_vocab * (size_t)m->n_used;
	graph_layer_name(g, i, "mlp.gate.tid2eid", name);
	enum status st = model_choices(g->m, name, n_vocab, m->n_used, m->n,
				       &host, fail);
	return st == OK ? graph_put(g, host, n * sizeof *host, &m->fixed, fail) : st;
}

static enum status load_router(struct graph *g, int i, struct moe *m,
			       struct fail *fail)
{
	char bias[80];
	snprintf(bias, sizeof bias, "%s.bias", m->router_name);
	const struct graph_part router = {m->router_name, GRAPH_ROWS, m->n, g->dim, &m->router};
	const struct graph_part choice = {"mlp.gate.e_score_correction_bias",
					  m->choice_is_row ? GRAPH_MATRIX : GRAPH_VECTOR,
					  m->choice_is_row ? 1 : m->n, m->n, &m->router_bias};
	const struct graph_part logit = {bias, GRAPH_VECTOR, m->n, 0, &m->logit_bias};
	const struct graph_part gate = {m->shared_router, GRAPH_WEIGHT, 1, g->dim,
					&m->shared_gate};
	const struct graph_part scale = {"router.per_expert_scale", GRAPH_VECTOR, m->n, 0,
					 &m->expert_scale};
	enum status st = graph_load_parts(g, i, &router, 1, fail);
	if (st == OK && m->is_fixed)
		st = load_fixed(g, i, m, fail);
	if (st == OK && m->has_choice_bias)
		st = graph_load_parts(g, i, &choice, 1, fail);
	if (st == OK && m->has_logit_bias)
		st = graph_load_parts(g, i, &logit, 1, fail);
	if (st == OK && m->shared_router)
		st = graph_load_parts(g, i, &gate, 1, fail);
	return st == OK && m->has_expert_scale ? graph_load_parts(g, i, &scale, 1, fail) : st;
}

/* The backend runs the shared expert with the others. */
static void join_shared(struct moe *m)
{
	m->routed.shared_gate = &m->shared.gate;
	m->routed.shared_up = &m->shared.up;
	m->routed.shared_down = &m->shared.down;
	m->routed.shared_router = m->shared_router ? &m->shared_gate : NULL;
}

enum status moe_load(struct graph *g, int i, struct fail *fail)
{
	struct moe *m = &g->layers[i].experts;
	struct weight *w = g->expert_weights + (size_t)i * 3 * (size_t)m->n;
	if (m->shared.dim && m->act.kind == ACT_GELU_TANH)
		return fail_at(fail, E_UNSUPPORTED, "model_type", "layer %d: a shared expert "
			       "with gelu", i);
	m->routed = (struct experts){.n = m->n, .gate = w, .up = w + m->n, .down = w + 2 * m->n};
	enum status st = load_router(g, i, m, fail);
	if (st == OK)
		st = load_each(g, i, m, w, fail);
	if (st == OK && m->has_bias)
		st = load_biases(g, i, m, &m->routed, fail);
	if (st == OK && m->shared.dim)
		st = mlp_load(g, i, &m->shared, fail);
	if (st != OK || g->probed)
		return st;
	m->routed.act = m->act;
	if (m->shared.dim && !m->shared_is_apart)
		join_shared(m);
	return g->b->ops->load_experts(g->b, &m->routed, fail);
}

enum status moe_alloc(struct graph *g, struct fail *fail)
{
	struct moe_scratch *r = &g->moe;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t e = 0, u = 0, f = 0, shared = 0;
	for (int i = 0; i < graph_n_layers(g); i++) {
		const struct moe *m = &g->layers[i].experts;
		e = MAX(e, (size_t)m->n);
		u = MAX(u, (size_t)m->n_used);
		f = MAX(f, (size_t)m->dim);
		shared = MAX(shared, (size_t)m->shared.dim);
	}
	size_t a = g->b->expert_bytes ? MOE_AHEAD_MAX_TOK : 0;
	const struct graph_want wanted[] = {
		{&r->ahead_x, a * (size_t)g->dim * act},
		{&r->ahead_logits, a * e * sizeof *r->ahead_logits},
		{&r->ahead_weight, a * u * sizeof *r->ahead_weight},
		{&r->ahead_id, a * u * sizeof *r->ahead_id},
		{&r->logits, t * e * sizeof *r->logits},
		{&r->weight, t * u * sizeof *r->weight},
		{&r->id, t * u * sizeof *r->id},
		{&r->work, moe_experts_work((int32_t)t, (int32_t)u, (int32_t)e) *
				   sizeof *r->work},
		{&r->h, t * u * f * act},
		{&r->shared_h, t * 2 * shared * act},
		{&r->shared_scale, t * sizeof *r->shared_scale},
	};
	return e ? graph_take_all(g, wanted, ARRAY_LEN(wanted), fail) : OK;
}

/* --- a step ------------------------------------------------------------------------ */

struct moe_router_args moe_router(const struct graph *g, const struct layer *l, int32_t t,
				      const struct rms_norm_args *norm)
{
	const struct moe *m = &l->experts;
	const struct moe_scratch *r = &g->moe;
	return (struct moe_router_args){
		.norm = norm, .n_tok = t, .n_used = m->n_used,
		.norm_topk = m->norm_topk, .x = g->n, .router = &m->router,
		.logits = r->logits, .id = r->id, .weight = r->weight,
		.is_sigmoid = m->is_sigmoid, .is_shifted = m->is_shifted,
		.is_root = m->is_root, .fixed = m->fixed,
		.token = g->ids, /* a step's ids begin with its tokens (step_ids.h) */
		.n_groups = m->n_groups,
		.n_groups_used = m->n_groups_used,
		.scale = m->routed_scale, .bias = m->router_bias,
		.logit_bias = m->logit_bias, .expert_scale = m->expert_scale};
}

static bool is_mtp(const struct graph *g, const struct layer *l)
{
	return l >= g->layers + g->n_layers;
}

bool moe_follow(const struct graph *g, const struct layer *l)
{
	return l->experts.n && !l->experts.is_hidden && !is_mtp(g, l);
}

/* If a table gives the experts, there is no choice to watch. */
static bool is_watched(const struct graph *g, const struct layer *l)
{
	return g->watch && !is_mtp(g, l) && !l->experts.fixed;
}

enum status moe_choose(struct graph *g, const struct layer *l,
			   const struct moe_router_args *router, struct fail *fail)
{
	profile_enter(g->b->profile, PROFILE_ROUTER);
	enum status st = g->b->ops->moe_router(g->b, router);
	if (st != OK)
		return graph_op_failed(g, "moe_router", router->n_tok, st, fail);
	return is_watched(g, l) ? graph_watch_router(g, (int)(l - g->layers), router, fail) : OK;
}

/* Prepares the prediction of the next layer's experts. False: what that layer reads is not known,
 * no layer after l has experts, or there are too many tokens. norm: of that layer. */
static bool look_ahead(const struct graph *g, const struct layer *l, int32_t t,
		       struct rms_norm_args *norm, struct moe_ahead *out)
{
	const struct moe_scratch *r = &g->moe;
	const struct layer *next = l + 1, *end = g->layers + g->n_layers;
	while (next < end && !next->experts.n)
		next++;
	if (!g->b->expert_bytes || t == 0 || t > MOE_AHEAD_MAX_TOK || next >= end ||
	    next->experts.is_hidden)
		return false;
	*norm = graph_norm(g, next, NORM_MLP, t);
	norm->y = r->ahead_x;
	out->router = moe_router(g, next, t, norm);
	out->router.x = r->ahead_x;
	out->router.logits = r->ahead_logits;
	out->router.id = r->ahead_id;
	out->router.weight = r->ahead_weight;
	out->experts = &next->experts.routed;
	return true;
}

enum status moe_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			const struct moe_run *x, struct fail *fail)
{
	const struct moe *m = &l->experts;
	const struct moe_scratch *r = &g->moe;
	int32_t t = s->b->n_tok;
	const struct moe_router_args router = moe_router(g, l, t, x->norm);
	struct rms_norm_args ahead_norm;
	struct moe_ahead ahead;
	struct moe_lora lora;
	bool has_ahead = look_ahead(g, l, t, &ahead_norm, &ahead);
	bool chooses_first = !x->is_chosen && is_watched(g, l);
	bool has_shared = m->shared.dim && !m->shared_is_apart;
	enum status st = chooses_first ? moe_choose(g, l, &router, fail) : OK;
	if (st != OK)
		return st;
	if (!chooses_first)
		profile_enter(g->b->profile, PROFILE_GATE_UP);
	RUN(moe_experts, .router = chooses_first || x->is_chosen ? NULL : &router, .n_tok = t,
	    .n_used = m->n_used, .x = x->in ? x->in : g->n, .id = r->id,
	    .weight = x->weight ? x->weight : r->weight,
	    .experts = &m->routed, .h = r->h, .work = r->work, .y = x->y ? x->y : g->x,
	    .shared_h = has_shared ? r->shared_h : NULL,
	    .shared_scale = m->shared_router ? r->shared_scale : NULL,
	    .ahead = has_ahead ? &ahead : NULL,
	    .lora = graph_lora_experts(g, l, s, &lora) ? &lora : NULL);
	return OK;
}
