/* SPDX-License-Identifier: Apache-2.0
 *
 *   n = norm(x)
 *   dense:    x += Wdown (act(Wgate n) * Wup n)
 *   experts:  x += the same of the chosen experts, weighted by the router, and of the
 *             shared expert
 *
 * Layer i has experts where (i + 1) % sparse_step == 0 and it is not among those that
 * the config names as dense.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/arch.h"

static bool has_experts(const struct model_config *c, int i_layer)
{
	if (c->n_experts == 0 || (i_layer + 1) % c->sparse_step != 0)
		return false;
	for (int32_t i = 0; i < c->n_dense_layers; i++)
		if (c->dense_layers[i] == i_layer)
			return false;
	return true;
}

/* gate, up and down of width f below `name`. */
static enum status load_dense(struct graph *g, int i, const char *name, int32_t f,
			      struct mlp *m, struct fail *fail)
{
	int32_t d = g->c->d_model;
	char gate[80], up[80], down[80];
	snprintf(gate, sizeof gate, "%s.gate_proj", name);
	snprintf(up, sizeof up, "%s.up_proj", name);
	snprintf(down, sizeof down, "%s.down_proj", name);
	const struct graph_part parts[] = {
		{gate, GRAPH_WEIGHT, f, d, &m->gate},
		{up, GRAPH_WEIGHT, f, d, &m->up},
		{down, GRAPH_WEIGHT, d, f, &m->down},
	};
	return graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
}

/* gate_up_proj_bias has a gate's and an up's in turn, as their rows are. */
static enum status load_expert_biases(struct graph *g, int i, struct experts *ex,
				      struct fail *fail)
{
	const struct model_config *c = g->c;
	size_t n = (size_t)c->n_experts * (size_t)c->expert_dim;
	const float *both;
	char name[200];
	const struct graph_part down = {"mlp.experts.down_proj_bias", GRAPH_MATRIX,
					c->n_experts, c->d_model, &ex->down_bias};
	const struct graph_part apart[] = {
		{"mlp.experts.gate_proj_bias", GRAPH_MATRIX, c->n_experts, c->expert_dim,
		 &ex->gate_bias},
		{"mlp.experts.up_proj_bias", GRAPH_MATRIX, c->n_experts, c->expert_dim,
		 &ex->up_bias},
		down,
	};
	if (graph_layer_has(g, i, apart[0].name)) /* GGUF */
		return graph_load_parts(g, i, apart, 3, fail);
	graph_layer_name(g, i, "mlp.experts.gate_up_proj_bias", name);
	enum status st = model_matrix(g->m, name, c->n_experts, 2 * c->expert_dim, &both,
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

static enum status load_each(struct graph *g, int i, struct weight *w, struct fail *fail)
{
	int32_t d = g->c->d_model, f = g->c->expert_dim, n = g->c->n_experts;
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
		st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	}
	return st;
}

static enum status load_router(struct graph *g, int i, const struct mlp_names *names,
			       struct mlp *m, struct fail *fail)
{
	const struct model_config *c = g->c;
	char bias[80], shared[80];
	snprintf(bias, sizeof bias, "%s.bias", names->router);
	snprintf(shared, sizeof shared, "%s_gate", names->shared);
	const struct graph_part router = {names->router, GRAPH_ROWS, c->n_experts,
					  c->d_model, &m->router};
	const struct graph_part choice = {"mlp.gate.e_score_correction_bias", GRAPH_VECTOR,
					  c->n_experts, 0, &m->router_bias};
	const struct graph_part logit = {bias, GRAPH_VECTOR, c->n_experts, 0,
					 &m->logit_bias};
	const struct graph_part gate = {shared, GRAPH_WEIGHT, 1, c->d_model,
					&m->shared_router};
	enum status st = graph_load_parts(g, i, &router, 1, fail);
	if (st == OK && c->n_groups)
		st = graph_load_parts(g, i, &choice, 1, fail);
	if (st == OK && c->router_bias)
		st = graph_load_parts(g, i, &logit, 1, fail);
	if (st == OK && c->shared_router)
		st = graph_load_parts(g, i, &gate, 1, fail);
	return st;
}

enum status mlp_load(struct graph *g, int i, const struct mlp_names *names,
		     struct fail *fail)
{
	const struct model_config *c = g->c;
	struct mlp *m = &g->layers[i].mlp;
	int32_t n = c->n_experts;
	struct weight *w = g->expert_weights + (size_t)i * 3 * (size_t)n;
	m->has_experts = has_experts(c, i);
	if (!m->has_experts)
		return load_dense(g, i, "mlp", c->ffn_dim, m, fail);
	if (g->arch->norms[NORM_MLP_POST] || (c->shared_dim && c->act.kind == ACT_GELU_TANH))
		return fail_at(fail, E_UNSUPPORTED, "model_type", "layer %d: experts with a "
			       "norm behind them, or shared ones with gelu", i);
	m->experts = (struct experts){.n = n, .gate = w, .up = w + n, .down = w + 2 * n};
	enum status st = load_router(g, i, names, m, fail);
	if (st == OK)
		st = load_each(g, i, w, fail);
	if (st == OK && c->expert_bias)
		st = load_expert_biases(g, i, &m->experts, fail);
	if (st == OK && c->shared_dim)
		st = load_dense(g, i, names->shared, c->shared_dim, m, fail);
	if (st != OK)
		return st;
	m->experts.act = c->act;
	if (c->shared_dim) {
		m->experts.shared_gate = &m->gate;
		m->experts.shared_up = &m->up;
		m->experts.shared_down = &m->down;
		m->experts.shared_router = c->shared_router ? &m->shared_router : NULL;
	}
	return g->b->ops->load_experts(g->b, &m->experts, fail);
}

enum status mlp_alloc(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct mlp_scratch *r = &g->mlp;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t e = (size_t)c->n_experts, u = (size_t)c->n_experts_used;
	size_t f = 0, s = (size_t)c->shared_dim;
	for (int i = 0; i < graph_n_layers(g); i++)
		if (!has_experts(c, i))
			f = (size_t)c->ffn_dim;
	size_t a = g->b->expert_bytes ? MOE_AHEAD_MAX_TOK : 0;
	const struct graph_want wanted[] = {
		{&r->ahead_x, a * (size_t)c->d_model * act},
		{&r->ahead_logits, a * e * sizeof *r->ahead_logits},
		{&r->ahead_weight, a * u * sizeof *r->ahead_weight},
		{&r->ahead_id, a * u * sizeof *r->ahead_id},
		{&r->gate, t * f * act},
		{&r->up, t * f * act},
		{&r->logits, t * e * sizeof *r->logits},
		{&r->weight, t * u * sizeof *r->weight},
		{&r->id, t * u * sizeof *r->id},
		{&r->work, moe_experts_work((int32_t)t, (int32_t)u, (int32_t)e) *
				   sizeof *r->work},
		{&r->h, t * u * (size_t)c->expert_dim * act},
		{&r->shared_h, t * 2 * s * act},
		{&r->shared_scale, t * sizeof *r->shared_scale},
	};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

/* *out: the router of layer l, for t tokens; x, logits, id and weight are left out. */
static void describe_router(const struct graph *g, const struct layer *l, int32_t t,
			    struct moe_router_args *out)
{
	const struct model_config *c = g->c;
	const struct mlp *m = &l->mlp;
	*out = (struct moe_router_args){
		.n_tok = t, .n_used = c->n_experts_used, .norm_topk = c->norm_topk,
		.router = &m->router, .is_sigmoid = c->n_groups > 0,
		.n_groups = c->n_groups, .n_groups_used = c->n_groups_used,
		.scale = c->routed_scale, .bias = m->router_bias,
		.logit_bias = m->logit_bias};
}

/* False: there is no layer behind l with experts, or there are too many tokens. norm: as
 * mlp_run makes it. */
static bool look_ahead(const struct graph *g, const struct layer *l, int32_t t,
		       struct rms_norm_args *norm, struct moe_ahead *out)
{
	const struct mlp_scratch *r = &g->mlp;
	const struct layer *next = l + 1, *end = g->layers + g->c->n_layers;
	while (next < end && !next->mlp.has_experts)
		next++;
	if (!g->b->expert_bytes || t == 0 || t > MOE_AHEAD_MAX_TOK || next >= end)
		return false;
	*norm = graph_norm(g, next, NORM_MLP, t);
	norm->y = r->ahead_x;
	describe_router(g, next, t, &out->router);
	out->router.norm = norm;
	out->router.x = r->ahead_x;
	out->router.logits = r->ahead_logits;
	out->router.id = r->ahead_id;
	out->router.weight = r->ahead_weight;
	out->experts = &next->mlp.experts;
	return true;
}

static enum status run_experts(struct graph *g, const struct layer *l, int32_t t,
			       const struct rms_norm_args *norm, struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mlp *m = &l->mlp;
	const struct mlp_scratch *r = &g->mlp;
	struct moe_router_args router;
	struct rms_norm_args ahead_norm;
	struct moe_ahead ahead;
	describe_router(g, l, t, &router);
	router.norm = norm;
	router.x = g->n;
	router.logits = r->logits;
	router.id = r->id;
	router.weight = r->weight;
	bool has_ahead = look_ahead(g, l, t, &ahead_norm, &ahead);
	bool is_watched = g->watch && l < g->layers + c->n_layers;
	profile_enter(g->b->profile, is_watched ? PROFILE_ROUTER : PROFILE_GATE_UP);
	if (is_watched) { /* who watches sees, and may change, the choice */
		enum status st = g->b->ops->moe_router(g->b, &router);
		if (st != OK)
			return graph_op_failed(g, "moe_router", t, st, fail);
		st = graph_watch_router(g, (int)(l - g->layers), &router, fail);
		if (st != OK)
			return st;
	}
	RUN(moe_experts, .router = is_watched ? NULL : &router, .n_tok = t,
	    .n_used = c->n_experts_used, .x = g->n, .id = r->id, .weight = r->weight,
	    .experts = &m->experts, .h = r->h, .work = r->work, .y = g->x,
	    .shared_h = c->shared_dim ? r->shared_h : NULL,
	    .shared_scale = c->shared_router ? r->shared_scale : NULL,
	    .ahead = has_ahead ? &ahead : NULL);
	return OK;
}

enum status mlp_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		    struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mlp *m = &l->mlp;
	const struct mlp_scratch *r = &g->mlp;
	int32_t t = s->b->n_tok;
	const struct rms_norm_args norm = graph_norm(g, l, NORM_MLP, t);
	if (m->has_experts)
		return run_experts(g, l, t, &norm, fail);
	profile_enter(g->b->profile, PROFILE_GATE_UP);
	RUN(linear, .norm = &norm, .n_tok = t, .x = g->n, .n_out = 2, .act = &c->act,
	    .out = {{.w = &m->gate, .y = r->gate}, {.w = &m->up, .y = r->up}});
	profile_enter(g->b->profile, PROFILE_DOWN);
	return graph_add(g, l, t, &(struct graph_add){&m->down, NULL, r->gate,
						      NORM_MLP_POST}, fail);
}
