/* SPDX-License-Identifier: Apache-2.0
 *
 * Kimi delta attention: a gated delta net whose state forgets each channel of a key at a rate of
 * its own.
 *
 *   n = norm(x);  q, k, v, b = W n;  a = Wa (Wa_low n);  z = Wz (Wz_low n), or a, z = W n
 *   q, k, v = silu(a short convolution of q, k, v along the sequence)
 *   y = delta rule (q, k, v; decays of a, strength of b)    (kernels/ops/delta_rule.h, by_channel)
 *   x += Wout (norm(y) * sigmoid(z))
 *
 * States, and what is kept for a step with drafts, are those of a gated delta net. So struct delta
 * holds them. Sources: Kimi Linear, 2025, section 3; modeling_kimi_linear.py and
 * modeling_bailing_hybrid.py of Hugging Face Transformers.
 */
#include "engine/parts/delta.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

/* The checkpoint has a convolution each for q, k and v; the operation has one. */
static enum status load_conv(struct graph *g, int i, struct fail *fail)
{
	static const char *const names[] = {"self_attn.q_conv1d.weight",
					    "self_attn.k_conv1d.weight",
					    "self_attn.v_conv1d.weight"};
	struct delta *a = &g->layers[i].delta;
	int32_t keys = a->n_k_heads * a->k_dim, rows[] = {keys, keys, a->n_v_heads * a->v_dim};
	size_t n = (size_t)delta_channels(a) * (size_t)a->conv_width, at = 0;
	float *all = xmalloc(n * sizeof *all);
	enum status st = OK;
	for (size_t k = 0; k < ARRAY_LEN(names) && st == OK; k++) {
		char full[200];
		const float *host;
		size_t n_part = (size_t)rows[k] * (size_t)a->conv_width;
		st = model_matrix(g->m, graph_layer_name(g, i, names[k], full), rows[k],
				  a->conv_width, &host, fail);
		if (st == OK)
			memcpy(all + at, host, n_part * sizeof *all);
		at += n_part;
	}
	if (st == OK)
		return graph_put_own(g, all, n, &a->conv, fail);
	free(all);
	return st;
}

enum status kda_load(struct graph *g, int i, struct fail *fail)
{
	struct delta *a = &g->layers[i].delta;
	int32_t d = g->dim, keys = a->n_k_heads * a->k_dim, n_v = a->n_v_heads * a->v_dim;
	const struct graph_part parts[] = {
		{"self_attn.q_proj", GRAPH_WEIGHT, keys, d, &a->qkv},
		{"self_attn.k_proj", GRAPH_WEIGHT, keys, d, &a->k},
		{"self_attn.v_proj", GRAPH_WEIGHT, n_v, d, &a->v},
		{"self_attn.b_proj", GRAPH_WEIGHT, a->n_v_heads, d, &a->b},
		{"self_attn.dt_bias", GRAPH_VECTOR, delta_steps(a), 0, &a->dt_bias},
		{"self_attn.o_norm.weight", GRAPH_VECTOR, a->v_dim, 0, &a->norm},
		{"self_attn.o_proj", GRAPH_WEIGHT, d, n_v, &a->out},
	};
	const struct graph_part low[] = {
		{"self_attn.f_a_proj", GRAPH_WEIGHT, a->k_dim, d, &a->a_low},
		{"self_attn.f_b_proj", GRAPH_WEIGHT, delta_steps(a), a->k_dim, &a->a},
		{"self_attn.g_a_proj", GRAPH_WEIGHT, a->v_dim, d, &a->z_low},
		{"self_attn.g_b_proj", GRAPH_WEIGHT, n_v, a->v_dim, &a->z},
	};
	const struct graph_part full[] = {
		{"self_attn.f_proj", GRAPH_WEIGHT, delta_steps(a), d, &a->a},
		{"self_attn.g_proj", GRAPH_WEIGHT, n_v, d, &a->z},
	};
	TRY(graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail));
	TRY(graph_load_parts(g, i, a->is_full ? full : low,
			     a->is_full ? ARRAY_LEN(full) : ARRAY_LEN(low), fail));
	TRY(load_conv(g, i, fail));
	return delta_decay(g, i, "self_attn.A_log", a, fail);
}

enum status kda_alloc(struct graph *g, struct fail *fail)
{
	struct delta_scratch *r = &g->delta;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	int i = 0;
	while (g->layers[i].delta.kind != DELTA_KDA)
		i++;
	const struct delta *of = &g->layers[i].delta;
	const struct graph_want wanted[] = {
		{&r->a_low, t * (size_t)of->k_dim * act},
		{&r->z_low, t * (size_t)of->v_dim * act},
	};
	TRY(mamba_alloc(g, fail));
	if (of->is_full)
		return OK;
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

/* q, k, v, z of t tokens are apart, and so are b, a. */
static struct delta_views kda_find(const struct graph *g, const struct delta *a, int32_t t,
				   bool keeps)
{
	int32_t keys = a->n_k_heads * a->k_dim, n_v = a->n_v_heads * a->v_dim, hv = a->n_v_heads;
	int32_t n = delta_steps(a);
	size_t act = dtype_bytes(g->b->act_type), tok = (size_t)t;
	const char *q = keeps ? a->kept_qkvz : g->delta.qkvz;
	const float *b = keeps ? a->kept_ba : g->delta.ba;
	const char *k = q + tok * (size_t)keys * act, *v = k + tok * (size_t)keys * act;
	return (struct delta_views){
		.qkv = {{q, keys, 1, keys, keys}, {k, keys, 1, keys, keys}, {v, n_v, 1, n_v, n_v}},
		.n_parts = 3,
		.z = {v + tok * (size_t)n_v * act, n_v, 1, n_v, n_v},
		.b = {b, hv, 1, hv, hv}, .a = {b + tok * (size_t)hv, n, 1, n, n}};
}

/* Where a product may write what a view reads. */
static void *at(const struct head_view *v)
{
	return (void *)(uintptr_t)v->p;
}

static enum status project(struct graph *g, const struct layer *l, const struct graph_step *s,
			   const struct rms_norm_args *norm, const struct delta_views *f,
			   struct fail *fail)
{
	const struct delta *a = &l->delta;
	const struct delta_scratch *r = &g->delta;
	int32_t t = s->b->n_tok;
	LINEAR(.norm = norm, .n_tok = t, .x = g->n, .n_out = 4,
	       .out = {{.w = &a->qkv, .y = at(&f->qkv[0])}, {.w = &a->k, .y = at(&f->qkv[1])},
		       {.w = &a->v, .y = at(&f->qkv[2])},
		       {.w = &a->b, .y = at(&f->b), .is_f32 = true}});
	if (a->is_full) {
		LINEAR(.n_tok = t, .x = g->n, .n_out = 2,
		       .out = {{.w = &a->a, .y = at(&f->a), .is_f32 = true},
			       {.w = &a->z, .y = at(&f->z)}});
		return OK;
	}
	LINEAR(.n_tok = t, .x = g->n, .n_out = 2,
	       .out = {{.w = &a->a_low, .y = r->a_low}, {.w = &a->z_low, .y = r->z_low}});
	LINEAR(.n_tok = t, .x = r->a_low, .n_out = 1,
	       .out = {{.w = &a->a, .y = at(&f->a), .is_f32 = true}});
	LINEAR(.n_tok = t, .x = r->z_low, .n_out = 1, .out = {{.w = &a->z, .y = at(&f->z)}});
	return OK;
}

enum status kda_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct delta_run *x, struct fail *fail)
{
	const struct delta *a = &l->delta;
	const struct delta_scratch *r = &g->delta;
	int32_t t = s->b->n_tok;
	const struct delta_views f = kda_find(g, a, t, s->b->has_drafts);
	const struct gated_norm_args norm = {
		.n_tok = t, .n_heads = a->n_v_heads, .dim = a->v_dim, .eps = a->gate_eps,
		.x = r->y, .z = f.z, .weight = a->norm, .y = r->y, .is_sigmoid = true};
	TRY(project(g, l, s, x->norm, &f, fail));
	TRY(delta_recur(g, a, &f, &(struct delta_tokens){
		.ids = &s->ids, .n_tok = t, .n_seq = s->b->n_seq, .norm = &norm}, fail));
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, s, &(struct graph_add){.w = &a->out, .in = r->y, .next = x->next},
			 fail);
}

enum status kda_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
		       const struct graph_ids *ids, struct fail *fail)
{
	return delta_again(g, &l->delta, kda_find(g, &l->delta, g->kept_tok, true), r, ids, fail);
}
