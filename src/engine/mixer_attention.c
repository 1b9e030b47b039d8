/* SPDX-License-Identifier: Apache-2.0
 *
 *   n = norm(x);  q, k, v = W n (+ bias)
 *   norm (where the model has it) each head of q and k, or all heads of each together
 *   rotate each head of q and k; k, v to the cache
 *   y = attention(q, cache) (* sigmoid(gate), where q came with one)
 *   x += Wo y
 */
#include <math.h>

#include "base/alloc.h"
#include "engine/graph.h"
#include "engine/rope.h"

static enum status load(struct graph *g, int i, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct layer *l = &g->layers[i];
	struct attention *a = &l->attention;
	int32_t d = c->d_model, k = c->head_dim;
	int32_t nq = c->n_heads * k, nkv = c->n_kv_heads * k;
	const struct graph_part parts[] = {
		{"self_attn.q_proj", GRAPH_WEIGHT, c->gated_attention ? 2 * nq : nq, d,
		 &a->q},
		{"self_attn.k_proj", GRAPH_WEIGHT, nkv, d, &a->k},
		{"self_attn.v_proj", GRAPH_WEIGHT, nkv, d, &a->v},
		{"self_attn.o_proj", GRAPH_WEIGHT, d, nq, &a->o},
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
	const struct graph_part sinks = {"self_attn.sinks", GRAPH_VECTOR, c->n_heads, 0,
					 &a->sinks};
	a->window = c->is_windowed && i < c->n_layers && c->is_windowed[i] ? c->window : 0;
	enum status st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	if (st == OK && (c->qk_norm || c->wide_qk_norm))
		st = graph_load_parts(g, i, norms, ARRAY_LEN(norms), fail);
	if (st == OK && c->qkv_bias)
		st = graph_load_parts(g, i, biases, c->o_bias ? 4 : 3, fail);
	if (st == OK && c->has_sinks)
		st = graph_load_parts(g, i, &sinks, 1, fail);
	return st;
}

/* Once the tables are there. What cos and sin are to be multiplied by stands on both sides
 * of q . k: once for both where all of a head is rotated. */
static void set_rope(struct graph *g, int i)
{
	const struct model_config *c = g->c;
	struct attention *a = &g->layers[i].attention;
	bool is_own = i < c->n_layers; /* else it guesses */
	int r = c->rope_of && is_own ? c->rope_of[i] : 0;
	bool is_rotated = !c->is_unrotated || !is_own || !c->is_unrotated[i];
	double factor = is_rotated ? rope_sharpness(&c->ropes[r]) : 1;
	double per = c->query_scalar > 0 ? (double)c->query_scalar : c->head_dim;
	if (is_rotated && c->n_rot < c->head_dim) {
		g->rope_factor[r] = factor;
		factor = 1;
	}
	a->rope = g->rope[r];
	a->n_freq = is_rotated ? c->n_rot / 2 : 0;
	a->scale = (float)(factor * factor / sqrt(per));
}

static enum status alloc(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct attention_scratch *r = &g->attention;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t nq = (size_t)c->n_heads * (size_t)c->head_dim;
	size_t nkv = (size_t)c->n_kv_heads * (size_t)c->head_dim;
	const struct graph_want wanted[] = {
		{&r->q, t * nq * act},
		{&r->k, t * nkv * act},
		{&r->v, t * nkv * act},
		{&r->y, t * nq * act},
		{&r->q_gate, c->gated_attention ? t * 2 * nq * act : 1},
		{&r->q_wide, c->wide_qk_norm ? t * nq * sizeof *r->q_wide : 1},
		{&r->k_wide, c->wide_qk_norm ? t * nkv * sizeof *r->k_wide : 1},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	for (int i = 0; i < graph_n_layers(g); i++)
		set_rope(g, i);
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++)
		if (!c->is_linear || i == c->n_layers || !c->is_linear[i])
			st = graph_take_pages(g, &g->layers[i], (int32_t)nkv,
					      (int32_t)nkv, fail);
	return st;
}

/* r->q (or q, with its gate), r->k and r->v from norm(x). */
static enum status project(struct graph *g, const struct layer *l, int32_t t, void *q,
			   struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct attention *a = &l->attention;
	const struct attention_scratch *r = &g->attention;
	const struct rms_norm_args norm = graph_norm(g, l, NORM_MIXER, t);
	bool is_wide = c->wide_qk_norm;
	RUN(linear, .norm = &norm, .n_tok = t, .x = g->n, .n_out = 3,
	    .out = {{.w = &a->q, .bias = a->q_bias, .y = is_wide ? r->q_wide : q,
		     .is_f32 = is_wide},
		    {.w = &a->k, .bias = a->k_bias, .y = is_wide ? r->k_wide : r->k,
		     .is_f32 = is_wide},
		    {.w = &a->v, .bias = a->v_bias, .y = r->v}});
	if (!is_wide)
		return OK;
	RUN(rms_norm, .n_tok = t, .dim = c->n_heads * c->head_dim, .eps = c->norm_eps,
	    .x = r->q_wide, .weight = a->q_norm, .y = r->q);
	RUN(rms_norm, .n_tok = t, .dim = c->n_kv_heads * c->head_dim, .eps = c->norm_eps,
	    .x = r->k_wide, .weight = a->k_norm, .y = r->k);
	return OK;
}

static enum status run(struct graph *g, const struct layer *l, const struct graph_step *s,
		       struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct attention *a = &l->attention;
	const struct attention_scratch *r = &g->attention;
	int32_t t = s->b->n_tok, dim = c->head_dim;
	void *q = c->gated_attention ? r->q_gate : r->q;
	struct kv_pages kv = {l->k_pages, l->v_pages, g->b->kv_type, g->limits.page_size};
	enum status st = project(g, l, t, q, fail);
	if (st != OK)
		return st;
	struct qk_norm_rope_kv_args fresh = {
		.n_tok = t, .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads,
		.head_dim = dim, .n_freq = a->n_freq, .eps = c->norm_eps, .q = r->q,
		.k = r->k, .v = r->v, .q_norm = c->qk_norm ? a->q_norm : NULL,
		.k_norm = c->qk_norm ? a->k_norm : NULL,
		.rope = a->rope, .slot = s->ids.slot, .kv = kv, .q_scale = s->ids.q_scale,
		.q_from = c->gated_attention ? q : NULL,
		.q_pitch = c->gated_attention ? 2 * dim : 0};
	graph_enter_attention(g, s, a->window, 2 * c->n_kv_heads * dim);
	RUN(attention, .fresh = &fresh, .n_tok = t, .n_seq = s->b->n_seq, .n_heads = c->n_heads,
	    .n_kv_heads = c->n_kv_heads, .head_dim = dim,
	    .max_pages_per_seq = s->b->max_pages_per_seq, .n_ctx_max = s->n_ctx_max,
	    .window = a->window, .scale = a->scale, .q = r->q, .kv = kv,
	    .seq_of = s->ids.seq_of, .position = s->ids.position,
	    .first_tok = s->ids.first_tok, .page_table = s->ids.page_table, .y = r->y,
	    .sinks = a->sinks);
	if (c->gated_attention)
		RUN(sigmoid_gate, .n_tok = t, .dim = c->n_heads * dim, .y = r->y,
		    .gate = {(char *)q + (size_t)dim * dtype_bytes(g->b->act_type),
			     c->n_heads * 2 * dim, c->n_heads, dim, 2 * dim});
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, t, &(struct graph_add){&a->o, a->o_bias, r->y,
						      NORM_MIXER_POST}, fail);
}

const struct mixer mixer_attention = {load, alloc, run, NULL};
