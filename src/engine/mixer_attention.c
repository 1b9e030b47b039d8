/* SPDX-License-Identifier: Apache-2.0
 *
 *   n = norm(x);  q, k, v = W n (+ bias)
 *   norm (where the model has it) each head of q and k, or all heads of each together,
 *   and each head of v without weights; v may be k before its norm
 *   (or the norms' weights behind the rotation)
 *   rotate each head of q and k; k, v to the cache
 *   (a layer may have no k and v, and read the cache of one before it)
 *   y = attention(q, cache) (* sigmoid(gate), where q came with one)
 *   x += Wo y
 */
#include <math.h>

#include "base/alloc.h"
#include "engine/graph_sight.h"
#include "engine/graph.h"
#include "engine/rope.h"

static enum status load(struct graph *g, int i, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct layer *l = &g->layers[i];
	struct attention *a = &l->attention;
	int32_t d = c->d_model, k = model_head_dim(c, i);
	int32_t nq = c->n_heads * k, nkv = model_kv_heads(c, i) * k;
	const struct graph_part parts[] = {
		{"self_attn.q_proj", GRAPH_WEIGHT, c->gated_attention ? 2 * nq : nq, d,
		 &a->q},
		{"self_attn.o_proj", GRAPH_WEIGHT, d, nq, &a->o},
		{"self_attn.k_proj", GRAPH_WEIGHT, nkv, d, &a->k},
		{"self_attn.v_proj", GRAPH_WEIGHT, nkv, d, &a->v},
	};
	const struct graph_part norms[] = {
		{"self_attn.q_norm.weight", GRAPH_NORM, c->wide_qk_norm ? nq : k, 0,
		 &a->q_norm},
		{"self_attn.k_norm.weight", GRAPH_NORM, c->wide_qk_norm ? nkv : k, 0,
		 &a->k_norm},
	};
	const struct graph_part biases[] = {
		{"self_attn.q_proj.bias", GRAPH_VECTOR, nq, 0, &a->q_bias},
		{"self_attn.k_proj.bias", GRAPH_VECTOR, nkv, 0, &a->k_bias},
		{"self_attn.v_proj.bias", GRAPH_VECTOR, nkv, 0, &a->v_bias},
		{"self_attn.o_proj.bias", GRAPH_VECTOR, d, 0, &a->o_bias},
	};
	const struct graph_part *const o_bias = &biases[3];
	const struct graph_part sinks = {"self_attn.sinks", GRAPH_VECTOR, c->n_heads, 0,
					 &a->sinks};
	a->window = model_has_window(c, i) ? c->window : 0;
	a->head_dim = k;
	a->n_kv_heads = model_kv_heads(c, i);
	a->kv_layer = model_kv_layer(c, i);
	a->has_v = !c->keys_are_values || model_has_window(c, i);
	bool is_own = a->kv_layer == i;
	enum status st = graph_load_parts(g, i, parts, !is_own ? 2 : a->has_v ? 4 : 3, fail);
	if (st == OK && (c->qk_norm || c->wide_qk_norm))
		st = graph_load_parts(g, i, norms, is_own ? 2 : 1, fail);
	for (size_t b = 0; b < ARRAY_LEN(biases) && st == OK; b++)
		if ((&biases[b] == o_bias ? c->o_bias : c->qkv_bias) &&
		    (!model_may_lack(g->m) || graph_layer_has(g, i, biases[b].name)))
			st = graph_load_parts(g, i, &biases[b], 1, fail);
	if (st == OK && c->has_sinks)
		st = graph_load_parts(g, i, &sinks, 1, fail);
	return st == OK && c->index_heads ? indexer_load(g, i, fail) : st;
}

/* Called once the tables are there. The factor of cos and sin counts twice in q . k. If all of a
 * head is rotated, its square goes into the scale instead. */
static void set_rope(struct graph *g, int i)
{
	const struct model_config *c = g->c;
	struct attention *a = &g->layers[i].attention;
	bool is_own = i < c->n_layers; /* else it is the layer that guesses */
	int r = c->rope_of && is_own ? c->rope_of[i] : 0;
	bool is_rotated = !c->is_unrotated || !is_own || !c->is_unrotated[i];
	double factor = is_rotated ? rope_sharpness(&c->ropes[r]) : 1;
	double per = c->query_scalar > 0 ? (double)c->query_scalar : model_head_dim(c, i);
	if (is_rotated && model_n_rot(c, r) < model_head_dim(c, i)) {
		g->rope_factor[r] = factor;
		factor = 1;
	}
	a->rope = g->rope[r];
	a->n_freq = is_rotated ? model_n_rot(c, r) / 2 : 0;
	a->is_late = !(c->late_every && is_rotated);
	if (c->plain_qk_norm && is_rotated)
		a->q_norm = a->k_norm = g->attention.ones;
	a->scale = (float)(factor * factor / sqrt(per));
}

static enum status alloc(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct attention_scratch *r = &g->attention;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t dim = (size_t)MAX(c->head_dim, c->full_head_dim);
	size_t nq = (size_t)c->n_heads * dim;
	size_t nkv = (size_t)MAX(c->n_kv_heads, c->full_kv_heads) * dim;
	const struct graph_want wanted[] = {
		{&r->q, t * nq * act},
		{&r->k, t * nkv * act},
		{&r->v, t * nkv * act},
		{&r->y, t * nq * act},
		{&r->q_gate, c->gated_attention ? t * 2 * nq * act : 1},
		{&r->q_wide, c->wide_qk_norm ? t * nq * sizeof *r->q_wide : 1},
		{&r->k_wide, c->wide_qk_norm || c->norms_values
				     ? t * nkv * sizeof *r->k_wide : 1},
		{&r->v_wide, c->norms_values ? t * nkv * sizeof *r->v_wide : 1},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK && (c->norms_values || c->plain_qk_norm))
		st = graph_put_filled(g, 1, dim, &r->ones, fail);
	for (int i = 0; i < graph_n_layers(g); i++)
		set_rope(g, i);
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++) {
		int32_t n = model_kv_heads(c, i) * model_head_dim(c, i);
		if (model_attends(c, i) && model_kv_layer(c, i) == i)
			st = graph_take_pages(g, &g->layers[i], &(struct graph_pages_want){
				.n_k = n, .n_v = n, .n_heads = model_kv_heads(c, i)}, fail);
	}
	if (st == OK)
		st = graph_take_wide(g, fail);
	return st == OK && c->index_heads ? indexer_alloc(g, fail) : st;
}

/* Norms of q and k over all heads. */
static enum status norm_wide(struct graph *g, const struct attention *a, int32_t t,
			     struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct attention_scratch *r = &g->attention;
	RUN(rms_norm, .n_tok = t, .dim = c->n_heads * a->head_dim, .eps = c->norm_eps,
	    .x = r->q_wide, .weight = a->q_norm, .y = r->q);
	RUN(rms_norm, .n_tok = t, .dim = a->n_kv_heads * a->head_dim, .eps = c->norm_eps,
	    .x = r->k_wide, .weight = a->k_norm, .y = r->k);
	return OK;
}

/* Norms of the heads of v. If v is k before its norm (has_v false), also norms of the
 * heads of k. */
static enum status norm_values(struct graph *g, const struct attention *a, int32_t t,
			       struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct attention_scratch *r = &g->attention;
	int32_t n = t * a->n_kv_heads;
	RUN(rms_norm, .n_tok = n, .dim = a->head_dim, .eps = c->norm_eps,
	    .x = a->has_v ? r->v_wide : r->k_wide, .weight = r->ones, .y = r->v);
	if (!a->has_v)
		RUN(rms_norm, .n_tok = n, .dim = a->head_dim, .eps = c->norm_eps,
		    .x = r->k_wide, .weight = a->k_norm, .y = r->k);
	return OK;
}

/* Makes r->q (or q, with its gate), r->k and r->v from norm(x). */
static enum status project(struct graph *g, const struct layer *l, int32_t t, void *q,
			   struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct attention *a = &l->attention;
	const struct attention_scratch *r = &g->attention;
	struct rms_norm_args norm;
	const struct rms_norm_args *first;
	bool is_wide = c->wide_qk_norm, k_is_wide = is_wide || !a->has_v;
	bool is_own = l == &g->layers[a->kv_layer];
	enum status st = graph_read(g, l, NORM_MIXER, t, &norm, &first, fail);
	if (st != OK)
		return st;
	RUN(linear, .norm = first, .n_tok = t, .x = g->n,
	    .n_out = !is_own ? 1 : a->has_v ? 3 : 2,
	    .out = {{.w = &a->q, .bias = a->q_bias, .y = is_wide ? r->q_wide : q,
		     .is_f32 = is_wide},
		    {.w = &a->k, .bias = a->k_bias, .y = k_is_wide ? r->k_wide : r->k,
		     .is_f32 = k_is_wide},
		    {.w = &a->v, .bias = a->v_bias, .y = c->norms_values ? r->v_wide : r->v,
		     .is_f32 = c->norms_values}});
	if (is_wide)
		return norm_wide(g, a, t, fail);
	return is_own && c->norms_values ? norm_values(g, a, t, fail) : OK;
}

static enum status run(struct graph *g, const struct layer *l, const struct graph_step *s,
		       struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct attention *a = &l->attention;
	const struct attention_scratch *r = &g->attention;
	const struct layer *of = &g->layers[a->kv_layer];
	int32_t t = s->b->n_tok, dim = a->head_dim;
	void *q = c->gated_attention ? r->q_gate : r->q;
	struct kv_pages kv = graph_pages(g, of);
	if (c->index_heads)
		kv.page_size = c->index_ratio;
	enum status st = project(g, l, t, q, fail);
	if (st != OK)
		return st;
	struct qk_norm_rope_kv_args fresh = {
		.n_tok = t, .n_heads = c->n_heads, .n_kv_heads = of == l ? a->n_kv_heads : 0,
		.head_dim = dim, .n_freq = a->n_freq, .eps = c->norm_eps, .q = r->q,
		.k = r->k, .v = r->v, .q_norm = c->wide_qk_norm ? NULL : a->q_norm,
		.k_norm = !c->wide_qk_norm && a->has_v ? a->k_norm : NULL,
		.norms_turned = c->norms_turned,
		.rope = a->rope, .slot = s->ids.slot, .kv = kv,
		.q_scale = a->is_late ? s->ids.q_scale : NULL,
		.q_from = c->gated_attention ? q : NULL,
		.q_pitch = c->gated_attention ? 2 * dim : 0};
	graph_enter_attention(g, s, a->window, 2 * (size_t)a->n_kv_heads *
			      kv_pages_row_bytes(kv.type, dim));
	/* qk_norm_rope_kv comes before attention, if the layer reads the cache of another and
	 * only q is new; if an indexer chooses; or if guesses see those before them. */
	bool is_apart = of != l || c->index_heads || s->is_alone;
	if (is_apart) {
		st = g->b->ops->qk_norm_rope_kv(g->b, &fresh);
		if (st != OK)
			return graph_op_failed(g, "qk_norm_rope_kv", t, st, fail);
	}
	struct attention_args seen = {
		.fresh = is_apart ? NULL : &fresh, .n_tok = t, .n_seq = s->n_seq,
		.n_heads = c->n_heads, .n_kv_heads = a->n_kv_heads, .head_dim = dim,
		.max_pages_per_seq = s->max_pages_per_seq, .n_ctx_max = s->n_ctx_max,
		.window = a->window, .is_chunked = a->window && c->is_chunked,
		.scale = a->scale, .q = r->q, .kv = kv,
		.seq_of = s->ids.seq_of, .position = s->ids.position,
		.first_tok = s->ids.first_tok, .page_table = s->ids.page_table, .y = r->y,
		.sinks = a->sinks};
	graph_sight_see(g, s, &seen);
	if (c->index_heads)
		st = indexer_run(g, l, s, &seen, fail);
	if (st != OK)
		return st;
	st = g->b->ops->attention(g->b, &seen);
	if (st != OK)
		return graph_op_failed(g, "attention", t, st, fail);
	if (c->gated_attention)
		RUN(sigmoid_gate, .n_tok = t, .dim = c->n_heads * dim, .y = r->y,
		    .gate = {(char *)q + (size_t)dim * dtype_bytes(g->b->act_type),
			     c->n_heads * 2 * dim, c->n_heads, dim, 2 * dim});
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, t, &(struct graph_add){&a->o, a->o_bias, r->y,
						      NORM_MIXER_POST, 0}, fail);
}

const struct mixer mixer_attention = {load, alloc, run, NULL};
