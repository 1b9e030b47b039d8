/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/parts/attend.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"
#include "engine/graph_images.h"

/* --- weights and memory -------------------------------------------------------------- */

static enum status load_biases(struct graph *g, int i, struct attention *a, int32_t nq,
			       int32_t nkv, struct fail *fail)
{
	const struct {
		bool has;
		struct graph_part part;
	} biases[] = {
		{a->has_bias, {"self_attn.q_proj.bias", GRAPH_VECTOR, nq, 0, &a->q_bias}},
		{a->has_bias, {"self_attn.k_proj.bias", GRAPH_VECTOR, nkv, 0, &a->k_bias}},
		{a->has_bias, {"self_attn.v_proj.bias", GRAPH_VECTOR, nkv, 0, &a->v_bias}},
		{a->has_o_bias, {"self_attn.o_proj.bias", GRAPH_VECTOR, g->dim, 0, &a->o_bias}},
	};
	enum status st = OK;
	for (size_t b = 0; b < ARRAY_LEN(biases) && st == OK; b++)
		if (biases[b].has && (!model_may_lack(g->m) ||
				      graph_layer_has(g, i, biases[b].part.name)))
			st = graph_load_parts(g, i, &biases[b].part, 1, fail);
	return st;
}

static enum status load_norms(struct graph *g, int i, struct attention *a, int32_t nq,
			      int32_t nkv, bool is_own, struct fail *fail)
{
	bool is_wide = a->norms == HEADS_TOGETHER;
	const struct graph_part norms[] = {
		{"self_attn.q_norm.weight", GRAPH_NORM, is_wide ? nq : a->head_dim, 0,
		 &a->q_norm},
		{"self_attn.k_norm.weight", GRAPH_NORM, is_wide ? nkv : a->head_dim, 0,
		 &a->k_norm},
	};
	const struct graph_part each[] = {
		{"self_attn.q_norm.weight", GRAPH_MATRIX, a->n_heads, a->head_dim, &a->q_norm},
		{"self_attn.k_norm.weight", GRAPH_MATRIX, a->n_kv_heads, a->head_dim,
		 &a->k_norm},
	};
	if (a->norms == HEADS_PLAIN || a->norms == HEADS_ONES)
		return OK;
	return graph_load_parts(g, i, a->norms == HEADS_EACH ? each : norms, is_own ? 2 : 1,
				fail);
}

enum status attend_load(struct graph *g, int i, struct fail *fail)
{
	struct attention *a = &g->layers[i].attention;
	int32_t d = a->in_dim ? a->in_dim : g->dim;
	int32_t nq = a->n_heads * a->head_dim, nkv = a->n_kv_heads * a->head_dim;
	const struct graph_part parts[] = {
		{"self_attn.q_proj", GRAPH_WEIGHT, a->is_gated ? 2 * nq : nq, d, &a->q},
		{"self_attn.o_proj", GRAPH_WEIGHT, g->dim, nq, &a->o},
		{"self_attn.k_proj", GRAPH_WEIGHT, nkv, d, &a->k},
		{"self_attn.v_proj", GRAPH_WEIGHT, nkv, d, &a->v},
	};
	const struct graph_part gate = {"self_attn.g_proj", GRAPH_WEIGHT,
					a->gate_span ? nq / a->gate_span : 0, d, &a->gate};
	const struct graph_part sinks = {"self_attn.sinks", GRAPH_VECTOR, a->n_heads, 0,
					 &a->sinks};
	bool is_own = a->kv_layer == i;
	enum status st = graph_load_parts(g, i, parts, !is_own ? 2 : a->has_v ? 4 : 3, fail);
	if (st == OK && a->gate_span)
		st = graph_load_parts(g, i, &gate, 1, fail);
	if (st == OK)
		st = load_norms(g, i, a, nq, nkv, is_own, fail);
	if (st == OK)
		st = load_biases(g, i, a, nq, nkv, fail);
	return st == OK && a->has_sinks ? graph_load_parts(g, i, &sinks, 1, fail) : st;
}

/* Called once the tables are there. The factor of cos and sin counts twice in q . k. If all of a
 * head is rotated, its square goes into the scale instead. */
static void set_rope(struct graph *g, struct attention *a)
{
	double factor = a->sharpness;
	if (a->n_freq && 2 * a->n_freq < a->head_dim) {
		g->rope_factor[a->i_rope] = factor;
		factor = 1;
	}
	a->rope = g->rope[a->i_rope];
	if (a->norms == HEADS_ONES)
		a->q_norm = a->k_norm = g->attention.ones;
	a->scale = (float)(factor * factor / sqrt(a->per));
}

enum status attend_alloc(struct graph *g, struct fail *fail)
{
	struct attend_scratch *r = &g->attention;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t nq = 0, nkv = 0, dim = 0, gate = 0, q_wide = 0, k_wide = 0, v_wide = 0;
	bool has_ones = false;
	for (int i = 0; i < graph_n_layers(g); i++) {
		const struct attention *a = &g->layers[i].attention;
		size_t q = (size_t)(a->n_heads * a->head_dim);
		size_t kv = (size_t)(a->n_kv_heads * a->head_dim);
		bool is_wide = a->norms == HEADS_TOGETHER || a->norms == HEADS_EACH;
		nq = MAX(nq, q);
		nkv = MAX(nkv, kv);
		dim = MAX(dim, (size_t)a->head_dim);
		gate = MAX(gate, a->is_gated ? 2 * q : 0);
		gate = MAX(gate, a->gate_span ? q / (size_t)a->gate_span : 0);
		q_wide = MAX(q_wide, is_wide ? q : 0);
		k_wide = MAX(k_wide, is_wide || a->norms_values ? kv : 0);
		v_wide = MAX(v_wide, a->norms_values ? kv : 0);
		has_ones |= a->norms_values || a->norms == HEADS_ONES;
	}
	if (nq == 0)
		return OK;
	const struct graph_want wanted[] = {
		{&r->q, t * nq * act},
		{&r->k, t * nkv * act},
		{&r->v, t * nkv * act},
		{&r->y, t * nq * act},
		{&r->q_gate, gate ? t * gate * act : 1},
		{&r->q_wide, q_wide ? t * q_wide * sizeof *r->q_wide : 1},
		{&r->k_wide, k_wide ? t * k_wide * sizeof *r->k_wide : 1},
		{&r->v_wide, v_wide ? t * v_wide * sizeof *r->v_wide : 1},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK && has_ones)
		st = graph_put_filled(g, 1, dim, &r->ones, fail);
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++) {
		struct attention *a = &g->layers[i].attention;
		int32_t n = a->n_kv_heads * a->head_dim;
		if (a->n_heads)
			set_rope(g, a);
		if (a->n_heads && a->kv_layer == i)
			st = graph_take_pages(g, &g->layers[i], &(struct graph_pages_want){
				.n_k = n, .n_v = n, .n_heads = a->n_kv_heads}, fail);
	}
	return st == OK ? graph_take_wide(g, fail) : st;
}

/* --- a step ------------------------------------------------------------------------ */

static void *q_of(const struct graph *g, const struct attention *a)
{
	return a->is_gated ? g->attention.q_gate : g->attention.q;
}

/* Norms of q and k that see more of a row than a head. */
static enum status norm_wide(struct graph *g, const struct attention *a, int32_t t,
			     struct fail *fail)
{
	const struct attend_scratch *r = &g->attention;
	int32_t heads[] = {a->n_heads, a->n_kv_heads};
	float *x[] = {r->q_wide, r->k_wide};
	void *y[] = {r->q, r->k};
	const float *norm[] = {a->q_norm, a->k_norm};
	for (int k = 0; k < 2; k++)
		if (a->norms == HEADS_TOGETHER)
			RUN(rms_norm, .n_tok = t, .dim = heads[k] * a->head_dim, .eps = g->eps,
			    .x = x[k], .weight = norm[k], .y = y[k]);
		else
			RUN(layer_norm, .n_tok = t * heads[k], .dim = a->head_dim,
			    .eps = g->eps, .x = x[k], .weight = norm[k], .n_weights = heads[k],
			    .y = y[k]);
	return OK;
}

/* Norms of the heads of v. If v is k before its norm (has_v false), also norms of the
 * heads of k. */
static enum status norm_values(struct graph *g, const struct attention *a, int32_t t,
			       struct fail *fail)
{
	const struct attend_scratch *r = &g->attention;
	int32_t n = t * a->n_kv_heads;
	RUN(rms_norm, .n_tok = n, .dim = a->head_dim, .eps = g->eps,
	    .x = a->has_v ? r->v_wide : r->k_wide, .weight = r->ones, .y = r->v);
	if (!a->has_v)
		RUN(rms_norm, .n_tok = n, .dim = a->head_dim, .eps = g->eps,
		    .x = r->k_wide, .weight = a->k_norm, .y = r->k);
	return OK;
}

enum status attend_project(struct graph *g, const struct layer *l,
			      const struct graph_step *s, const struct attend_project *x,
			      struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct attend_scratch *r = &g->attention;
	int32_t t = s->b->n_tok;
	bool is_wide = a->norms == HEADS_TOGETHER || a->norms == HEADS_EACH;
	bool k_is_wide = is_wide || !a->has_v, is_own = l == &g->layers[a->kv_layer];
	LINEAR(.norm = x->norm, .n_tok = t, .x = x->in ? x->in : g->n,
	       .n_out = !is_own ? 1 : !a->has_v ? 2 : a->gate_span ? 4 : 3,
	       .out = {{.w = &a->q, .bias = a->q_bias, .y = is_wide ? r->q_wide : q_of(g, a),
			.is_f32 = is_wide},
		       {.w = &a->k, .bias = a->k_bias, .y = k_is_wide ? r->k_wide : r->k,
			.is_f32 = k_is_wide},
		       {.w = &a->v, .bias = a->v_bias, .y = a->norms_values ? r->v_wide : r->v,
			.is_f32 = a->norms_values},
		       {.w = &a->gate, .y = r->q_gate}});
	if (is_wide)
		return norm_wide(g, a, t, fail);
	return is_own && a->norms_values ? norm_values(g, a, t, fail) : OK;
}

enum status attend_see(struct graph *g, const struct layer *l, const struct graph_step *s,
			  const struct attend_see *x, struct fail *fail)
{
	const struct attention *a = &l->attention;
	const struct attend_scratch *r = &g->attention;
	const struct layer *of = &g->layers[a->kv_layer];
	int32_t t = s->b->n_tok, dim = a->head_dim;
	struct kv_pages kv = graph_pages(g, of);
	if (x->index)
		kv.page_size = x->index->ratio;
	struct qk_norm_rope_kv_args fused = {
		.n_tok = t, .n_heads = a->n_heads, .n_kv_heads = of == l ? a->n_kv_heads : 0,
		.head_dim = dim, .n_freq = a->n_freq, .eps = g->eps, .q = r->q,
		.k = r->k, .v = r->v, .q_norm = x->q_norm,
		.k_norm = a->has_v ? x->k_norm : NULL,
		.norm_after_rope = x->norm_after_rope,
		.rope = a->rope, .slot = s->ids.slot, .kv = kv,
		.q_scale = a->has_attn_temp ? s->ids.q_scale : NULL,
		.q_from = a->is_gated ? r->q_gate : NULL,
		.q_pitch = a->is_gated ? 2 * dim : 0};
	graph_enter_attention(g, s, a->window, 2 * (size_t)a->n_kv_heads *
			      kv_pages_row_bytes(kv.type, dim));
	/* qk_norm_rope_kv comes before attention, if the layer reads the cache of another and
	 * only q is new; if an indexer chooses; or if draft tokens see those before them. */
	bool is_apart = of != l || x->index || s->is_alone;
	enum status st = is_apart ? g->b->ops->qk_norm_rope_kv(g->b, &fused) : OK;
	if (st != OK)
		return graph_op_failed(g, "qk_norm_rope_kv", t, st, fail);
	struct attention_args seen = {
		.fused = is_apart ? NULL : &fused, .n_tok = t, .n_seq = s->n_seq,
		.n_heads = a->n_heads, .n_kv_heads = a->n_kv_heads, .head_dim = dim,
		.max_pages_per_seq = s->max_pages_per_seq, .n_ctx_max = s->n_ctx_max,
		.window = a->window, .is_chunked = a->is_chunked,
		.scale = a->scale, .q = r->q, .kv = kv,
		.seq_of = s->ids.seq_of, .position = s->ids.position,
		.first_tok = s->ids.first_tok, .page_table = s->ids.page_table, .y = r->y,
		.sinks = a->sinks};
	graph_images_see(g, s, &seen);
	if (x->index)
		st = indexer_run(g, l, s, &seen, fail);
	if (st != OK)
		return st;
	st = g->b->ops->attention(g->b, &seen);
	return st == OK ? OK : graph_op_failed(g, "attention", t, st, fail);
}

enum status attend_gate(struct graph *g, const struct layer *l, const struct graph_step *s,
			   struct fail *fail)
{
	const struct attention *a = &l->attention;
	int32_t t = s->b->n_tok, dim = a->head_dim;
	if (a->gate_span) {
		int32_t n = a->n_heads * dim / a->gate_span;
		RUN(sigmoid_gate, .n_tok = t, .dim = a->n_heads * dim, .span = a->gate_span,
		    .y = g->attention.y, .gate = {g->attention.q_gate, n, 1, n, n},
		    .is_softplus = a->gate_is_softplus);
		return OK;
	}
	RUN(sigmoid_gate, .n_tok = t, .dim = a->n_heads * dim, .span = 1, .y = g->attention.y,
	    .gate = {(const char *)g->attention.q_gate +
			     (size_t)dim * dtype_bytes(g->b->act_type),
		     a->n_heads * 2 * dim, a->n_heads, dim, 2 * dim});
	return OK;
}

enum status attend_out(struct graph *g, const struct layer *l, const struct graph_step *s,
			  const struct attend_out *x, struct fail *fail)
{
	const struct attention *a = &l->attention;
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, s, &(struct graph_add){
		.w = &a->o, .bias = a->o_bias, .in = g->attention.y, .post = x->post,
		.next = x->next}, fail);
}
