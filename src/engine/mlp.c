/* SPDX-License-Identifier: Apache-2.0
 *
 *   n = norm(x)
 *   dense:    x += Wdown (act(Wgate n) * Wup n), where each W may have a bias
 *   experts:  x += the same of the chosen experts, weighted by the router, and of the
 *             shared expert
 *   ungated:  act(Wup n), or of experts, which is ACT_RELU with Wgate = Wup
 *   apart:    routed experts read what the shared one does not: w n, where w is the
 *             router's weight (Llama 4); or L1 n, and x += L2 of their sum (Nemotron 3
 *             Super)
 *   beside:   x += norm(norm(the dense part) + norm(the experts)); each reads a norm of x
 *             of its own, and so does the router
 *
 * Layer i has experts where (i + 1) % sparse_step == 0 and it is not among those that
 * the config names as dense.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/arch.h"
#include "engine/graph_turns.h"

static bool has_experts(const struct model_config *c, int i_layer)
{
	if (c->n_experts == 0 || !model_has_part(c, i_layer, PART_MLP) ||
	    (i_layer + 1) % c->sparse_step != 0)
		return false;
	for (int32_t i = 0; i < c->n_dense_layers; i++)
		if (c->dense_layers[i] == i_layer)
			return false;
	return true;
}

/* True if routed experts read another input than the shared one. */
static bool is_apart(const struct model_config *c)
{
	return c->scales_inputs || c->latent_dim;
}

/* The biases of the dense part, as far as a file has them. In a folder the settings say that all
 * are there. */
static enum status load_biases(struct graph *g, int i, const char *name, int32_t f,
			       struct mlp *m, struct fail *fail)
{
	const struct {
		const char *part;
		int32_t n;
		const float **out;
	} biases[] = {{"gate", f, &m->gate_bias}, {"up", f, &m->up_bias},
		      {"down", g->c->d_model, &m->down_bias}};
	enum status st = OK;
	for (size_t b = g->c->is_ungated; b < ARRAY_LEN(biases) && st == OK; b++) {
		char full[80];
		snprintf(full, sizeof full, "%s.%s_proj.bias", name, biases[b].part);
		const struct graph_part part = {full, GRAPH_VECTOR, biases[b].n, 0,
						biases[b].out};
		if (!model_may_lack(g->m) || graph_layer_has(g, i, full))
			st = graph_load_parts(g, i, &part, 1, fail);
	}
	return st;
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
	int first = g->c->is_ungated;
	enum status st = graph_load_parts(g, i, parts + first, ARRAY_LEN(parts) - (size_t)first,
					  fail);
	if (first)
		m->gate = m->up;
	if (st == OK && g->c->mlp_bias && !m->has_experts)
		st = load_biases(g, i, name, f, m, fail);
	return st;
}

/* gate_up_proj_bias alternates a gate's and an up's, as the rows do. */
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

/* The projections before and after routed experts. */
static enum status load_latent(struct graph *g, int i, struct mlp *m, struct fail *fail)
{
	int32_t d = g->c->d_model, n = g->c->latent_dim;
	const struct graph_part parts[] = {
		{"mlp.fc1_latent_proj", GRAPH_WEIGHT, n, d, &m->latent_in},
		{"mlp.fc2_latent_proj", GRAPH_WEIGHT, d, n, &m->latent_out},
	};
	return graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
}

static enum status load_each(struct graph *g, int i, struct weight *w, struct fail *fail)
{
	int32_t f = g->c->expert_dim, n = g->c->n_experts;
	int32_t d = g->c->latent_dim ? g->c->latent_dim : g->c->d_model;
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
		int first = g->c->is_ungated;
		st = graph_load_parts(g, i, parts + first, ARRAY_LEN(parts) - (size_t)first,
				      fail);
		if (first)
			w[e] = w[n + e];
	}
	return st;
}

/* Loads the table of each token's experts, if there is one. */
static enum status load_fixed(struct graph *g, int i, struct mlp *m, struct fail *fail)
{
	const struct model_config *c = g->c;
	char name[200];
	int32_t *host, *on;
	size_t n = (size_t)c->n_vocab * (size_t)c->n_experts_used;
	graph_layer_name(g, i, "mlp.gate.tid2eid", name);
	enum status st = model_choices(g->m, name, c->n_vocab, c->n_experts_used, c->n_experts,
				       &host, fail);
	if (st == OK)
		st = graph_alloc(g, n * sizeof *on, &on, fail);
	if (st == OK)
		st = g->b->ops->upload(g->b, on, host, n * sizeof *on);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, fail);
	m->fixed = st == OK ? on : NULL;
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
	bool is_row = c->router_shifts; /* the checkpoint has it as (1, E) */
	const struct graph_part choice = {"mlp.gate.e_score_correction_bias",
					  is_row ? GRAPH_MATRIX : GRAPH_VECTOR,
					  is_row ? 1 : c->n_experts, c->n_experts,
					  &m->router_bias};
	const struct graph_part logit = {bias, GRAPH_VECTOR, c->n_experts, 0,
					 &m->logit_bias};
	const struct graph_part gate = {shared, GRAPH_WEIGHT, 1, c->d_model,
					&m->shared_router};
	const struct graph_part scale = {"router.per_expert_scale", GRAPH_VECTOR,
					 c->n_experts, 0, &m->expert_scale};
	enum status st = graph_load_parts(g, i, &router, 1, fail);
	bool is_hashed = c->is_hashed && c->is_hashed[i];
	if (st == OK && is_hashed)
		st = load_fixed(g, i, m, fail);
	if (st == OK && (c->n_groups || c->router_shifts) && !c->scales_inputs && !is_hashed)
		st = graph_load_parts(g, i, &choice, 1, fail);
	if (st == OK && c->router_bias)
		st = graph_load_parts(g, i, &logit, 1, fail);
	if (st == OK && c->shared_router)
		st = graph_load_parts(g, i, &gate, 1, fail);
	if (st == OK && c->experts_beside)
		st = graph_load_parts(g, i, &scale, 1, fail);
	if (st == OK && c->experts_beside)
		st = graph_put_scaled(g, i, "router.scale", c->d_model,
				      1 / sqrtf((float)c->d_model), &m->router_norm, fail);
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
	enum status st = OK;
	/* Granite 4: a dense layer is a shared expert alone. */
	bool is_shared = graph_layer_has(g, i, "mlp.shared_experts.down_proj");
	if (!m->has_experts || c->experts_beside)
		st = load_dense(g, i, is_shared ? "mlp.shared_experts" : "mlp",
				model_ffn_dim(c, i), m, fail);
	if (st != OK || !m->has_experts)
		return st;
	if ((g->arch->norms[NORM_MLP_POST] && !c->experts_beside) ||
	    (c->shared_dim && c->act.kind == ACT_GELU_TANH))
		return fail_at(fail, E_UNSUPPORTED, "model_type", "layer %d: experts with a "
			       "norm behind them, or shared ones with gelu", i);
	m->experts = (struct experts){.n = n, .gate = w, .up = w + n, .down = w + 2 * n};
	st = load_router(g, i, names, m, fail);
	if (st == OK)
		st = load_each(g, i, w, fail);
	if (st == OK && c->expert_bias)
		st = load_expert_biases(g, i, &m->experts, fail);
	if (st == OK && c->shared_dim)
		st = load_dense(g, i, names->shared, c->shared_dim, m, fail);
	if (st == OK && c->latent_dim)
		st = load_latent(g, i, m, fail);
	if (st != OK || g->probed)
		return st;
	m->experts.act = c->act;
	const struct weight *const shared[] = {&m->gate, &m->up, &m->down, &m->shared_router};
	bool is_inside = c->shared_dim && !is_apart(c);
	if (is_inside)
		st = graph_turns_none(shared, ARRAY_LEN(shared), "experts", fail);
	if (st != OK)
		return st;
	if (is_inside) {
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
		if (model_has_part(c, i, PART_MLP) && (!has_experts(c, i) || c->experts_beside))
			f = MAX(f, (size_t)model_ffn_dim(c, i));
	f = is_apart(c) ? MAX(f, s) : f;
	size_t d = c->experts_beside ? (size_t)c->d_model : 0, latent = (size_t)c->latent_dim;
	size_t in = latent ? latent : c->scales_inputs ? (size_t)c->d_model : 0;
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
		{&r->both, t * MAX(2 * d, latent) * sizeof *r->both + 1},
		{&r->in, t * in * act + 1},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK && c->scales_inputs)
		st = graph_put_filled(g, 1, t * u, &r->ones, fail);
	return st;
}

static struct moe_router_args router_of(const struct graph *g, const struct mlp *m, int32_t t,
					const struct rms_norm_args *norm)
{
	const struct model_config *c = g->c;
	const struct mlp_scratch *r = &g->mlp;
	return (struct moe_router_args){
		.norm = norm, .n_tok = t, .n_used = c->n_experts_used,
		.norm_topk = c->norm_topk, .x = g->n, .router = &m->router,
		.logits = r->logits, .id = r->id, .weight = r->weight,
		.is_sigmoid = c->n_groups > 0, .is_shifted = c->router_shifts,
		.is_root = c->router_roots, .fixed = m->fixed,
		.token = g->ids, /* a step's ids begin with its tokens (step_ids.h) */
		.n_groups = c->n_groups,
		.n_groups_used = c->n_groups_used,
		.scale = c->routed_scale, .bias = m->router_bias,
		.logit_bias = m->logit_bias, .expert_scale = m->expert_scale};
}

bool mlp_router_next(const struct graph *g, const struct layer *l, int32_t t,
		     struct rms_norm_args *norm, struct moe_router_args *router)
{
	const struct model_config *c = g->c;
	bool is_next = l < g->layers + c->n_layers && l->mlp.has_experts && !is_apart(c) &&
		       !c->experts_beside && !c->hyper_n && l->norms[NORM_MLP];
	*norm = graph_norm(g, l, NORM_MLP, t);
	*router = router_of(g, &l->mlp, t, norm);
	return is_next;
}

/* Runs the router alone. is_watched: g->watch sees the choice, and may change it. */
static enum status run_router(struct graph *g, const struct layer *l,
			      const struct moe_router_args *router, bool is_watched,
			      struct fail *fail)
{
	enum status st = g->b->ops->moe_router(g->b, router);
	if (st != OK)
		return graph_op_failed(g, "moe_router", router->n_tok, st, fail);
	return is_watched ? graph_watch_router(g, (int)(l - g->layers), router, fail) : OK;
}

/* Prepares the guess at the next layer's experts. False: what that layer reads is not
 * known (hyper.c), no layer after l has experts, or there are too many tokens. norm: as
 * mlp_run makes it. */
static bool look_ahead(const struct graph *g, const struct layer *l, int32_t t,
		       struct rms_norm_args *norm, struct moe_ahead *out)
{
	const struct mlp_scratch *r = &g->mlp;
	const struct layer *next = l + 1, *end = g->layers + g->c->n_layers;
	while (next < end && !next->mlp.has_experts)
		next++;
	if (!g->b->expert_bytes || g->c->hyper_n || t == 0 || t > MOE_AHEAD_MAX_TOK ||
	    next >= end || !next->norms[NORM_MLP])
		return false;
	*norm = graph_norm(g, next, NORM_MLP, t);
	norm->y = r->ahead_x;
	out->router = router_of(g, &next->mlp, t, norm);
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
	const struct moe_router_args router = router_of(g, m, t, norm);
	struct rms_norm_args ahead_norm;
	struct moe_ahead ahead;
	bool has_ahead = look_ahead(g, l, t, &ahead_norm, &ahead);
	/* If a table gives the experts, there is no choice to watch. */
	bool is_watched = g->watch && l < g->layers + c->n_layers && !m->fixed;
	profile_enter(g->b->profile, is_watched ? PROFILE_ROUTER : PROFILE_GATE_UP);
	enum status st = is_watched ? run_router(g, l, &router, true, fail) : OK;
	if (st != OK)
		return st;
	RUN(moe_experts, .router = is_watched ? NULL : &router, .n_tok = t,
	    .n_used = c->n_experts_used, .x = g->n, .id = r->id, .weight = r->weight,
	    .experts = &m->experts, .h = r->h, .work = r->work, .y = g->x,
	    .shared_h = c->shared_dim ? r->shared_h : NULL,
	    .shared_scale = c->shared_router ? r->shared_scale : NULL,
	    .ahead = has_ahead ? &ahead : NULL);
	return OK;
}

/* The experts add to zeros in the second half of r->both; the norm of that becomes its
 * first half. */
static enum status run_experts_beside(struct graph *g, const struct layer *l, int32_t t,
				      struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mlp *m = &l->mlp;
	const struct mlp_scratch *r = &g->mlp;
	float *y = r->both + (size_t)t * (size_t)c->d_model;
	struct rms_norm_args seen = graph_norm(g, l, NORM_EXPERTS, t), chosen = seen;
	chosen.weight = m->router_norm;
	const struct moe_router_args router = router_of(g, m, t, &chosen);
	profile_enter(g->b->profile, PROFILE_ROUTER);
	RUN(fill_words, .n = 2 * t * c->d_model, .y = r->both);
	enum status st = run_router(g, l, &router, g->watch != NULL, fail);
	if (st != OK)
		return st;
	st = g->b->ops->rms_norm(g->b, &seen);
	if (st != OK)
		return graph_op_failed(g, "rms_norm", t, st, fail);
	profile_enter(g->b->profile, PROFILE_GATE_UP);
	RUN(moe_experts, .n_tok = t, .n_used = c->n_experts_used, .x = g->n, .id = r->id,
	    .weight = r->weight, .experts = &m->experts, .h = r->h, .work = r->work, .y = y);
	RUN(rms_norm, .n_tok = t, .dim = c->d_model, .eps = c->norm_eps, .x = y,
	    .weight = l->norms[NORM_EXPERTS_POST], .sum = r->both);
	return OK;
}

/* The rest of the layer, after gate and up of the dense part. */
static enum status run_beside(struct graph *g, const struct layer *l, int32_t t,
			      struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mlp_scratch *r = &g->mlp;
	RUN(linear, .n_tok = t, .x = r->gate, .n_out = 1,
	    .out = {{.w = &l->mlp.down, .y = g->part, .is_f32 = true}});
	enum status st = run_experts_beside(g, l, t, fail);
	if (st != OK)
		return st;
	RUN(rms_norm, .n_tok = t, .dim = c->d_model, .eps = c->norm_eps, .x = g->part,
	    .weight = l->norms[NORM_DENSE_POST], .sum = r->both);
	RUN(rms_norm, .n_tok = t, .dim = c->d_model, .eps = c->norm_eps, .x = r->both,
	    .weight = l->norms[NORM_MLP_POST], .sum = g->x,
	    .sum_scale = c->layer_embed ? 0 : l->scale);
	return OK;
}

/* Runs a dense part without a gate. */
static enum status run_ungated(struct graph *g, const struct layer *l, int32_t t,
			       const struct rms_norm_args *norm, struct fail *fail)
{
	const struct mlp *m = &l->mlp;
	const struct mlp_scratch *r = &g->mlp;
	RUN(linear, .norm = norm, .n_tok = t, .x = g->n, .n_out = 1,
	    .out = {{.w = &m->up, .bias = m->up_bias, .y = r->up}});
	RUN(act_mul, .n_tok = t, .dim = m->up.n, .act = g->c->act, .gate = r->up, .up = r->up,
	    .y = r->gate);
	profile_enter(g->b->profile, PROFILE_DOWN);
	return graph_add(g, l, t, &(struct graph_add){&m->down, m->down_bias, r->gate,
						      NORM_MLP_POST, 0}, fail);
}

static enum status run_dense(struct graph *g, const struct layer *l, int32_t t,
			     const struct rms_norm_args *norm, struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mlp *m = &l->mlp;
	const struct mlp_scratch *r = &g->mlp;
	if (c->is_ungated)
		return run_ungated(g, l, t, norm, fail);
	RUN(linear, .norm = norm, .n_tok = t, .x = g->n, .n_out = 2,
	    .act = &c->act,
	    .out = {{.w = &m->gate, .bias = m->gate_bias, .y = r->gate},
		    {.w = &m->up, .bias = m->up_bias, .y = r->up}});
	profile_enter(g->b->profile, PROFILE_DOWN);
	if (m->has_experts && c->experts_beside)
		return run_beside(g, l, t, fail);
	return graph_add(g, l, t, &(struct graph_add){
		&m->down, m->down_bias, r->gate, NORM_MLP_POST,
		c->layer_embed ? 0 : l->scale}, fail);
}

/* The router chooses first, since the experts' input needs its weight. */
static enum status run_scaled(struct graph *g, const struct layer *l,
			      const struct graph_step *s, const struct rms_norm_args *norm,
			      const struct moe_ahead *ahead, struct fail *fail)
{
	const struct mlp *m = &l->mlp;
	const struct mlp_scratch *r = &g->mlp;
	int32_t t = s->b->n_tok;
	const struct moe_router_args router = router_of(g, m, t, norm);
	profile_enter(g->b->profile, PROFILE_ROUTER);
	enum status st = run_router(g, l, &router, g->watch != NULL, fail);
	if (st != OK)
		return st;
	/* Each token has one expert (config_llama4_read), so one weight. */
	RUN(scale_rows, .n_tok = t, .dim = g->c->d_model, .scale = r->weight, .x = g->n,
	    .y = r->in);
	profile_enter(g->b->profile, PROFILE_GATE_UP);
	RUN(moe_experts, .n_tok = t, .n_used = g->c->n_experts_used, .x = r->in, .id = r->id,
	    .weight = r->ones, .experts = &m->experts, .h = r->h, .work = r->work, .y = g->x,
	    .ahead = ahead);
	return OK;
}

/* Runs experts between two projections. */
static enum status run_latent(struct graph *g, const struct layer *l,
			      const struct graph_step *s, const struct rms_norm_args *norm,
			      const struct moe_ahead *ahead, struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mlp *m = &l->mlp;
	const struct mlp_scratch *r = &g->mlp;
	int32_t t = s->b->n_tok, n = c->latent_dim;
	bool is_watched = g->watch && l < g->layers + c->n_layers;
	const struct moe_router_args router = router_of(g, m, t, NULL);
	profile_enter(g->b->profile, PROFILE_GATE_UP);
	RUN(linear, .norm = norm, .n_tok = t, .x = g->n, .n_out = 1,
	    .out = {{.w = &m->latent_in, .y = r->in}});
	RUN(fill_words, .n = t * n, .y = r->both);
	enum status st = is_watched ? run_router(g, l, &router, true, fail) : OK;
	if (st != OK)
		return st;
	RUN(moe_experts, .router = is_watched ? NULL : &router, .n_tok = t,
	    .n_used = c->n_experts_used, .x = r->in, .id = r->id, .weight = r->weight,
	    .experts = &m->experts, .h = r->h, .work = r->work, .y = r->both, .ahead = ahead);
	RUN(to_act, .n_tok = t, .dim = n, .x = r->both, .y = r->in);
	return graph_add(g, l, t, &(struct graph_add){&m->latent_out, NULL, r->in,
						      NORM_MLP_POST, 0}, fail);
}

static enum status run_experts_apart(struct graph *g, const struct layer *l,
				     const struct graph_step *s,
				     const struct rms_norm_args *norm, struct fail *fail)
{
	int32_t t = s->b->n_tok;
	struct rms_norm_args ahead_norm;
	struct moe_ahead ahead;
	bool has_ahead = look_ahead(g, l, t, &ahead_norm, &ahead);
	enum status st = (g->c->scales_inputs ? run_scaled : run_latent)(
		g, l, s, norm, has_ahead ? &ahead : NULL, fail);
	if (st != OK || !g->c->shared_dim)
		return st;
	profile_enter(g->b->profile, PROFILE_SHARED);
	return run_dense(g, l, t, NULL, fail);
}

enum status mlp_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		    struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mlp *m = &l->mlp;
	int32_t t = s->b->n_tok;
	struct rms_norm_args norm;
	const struct rms_norm_args *first;
	enum status st = graph_read(g, l, NORM_MLP, t, &norm, &first, fail);
	if (st != OK)
		return st;
	if (m->has_experts && is_apart(c))
		return run_experts_apart(g, l, s, first, fail);
	if (m->has_experts && !c->experts_beside)
		return run_experts(g, l, t, first, fail);
	profile_enter(g->b->profile, PROFILE_GATE_UP);
	return run_dense(g, l, t, first, fail);
}
