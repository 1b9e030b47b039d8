/* SPDX-License-Identifier: Apache-2.0
 *
 * A state space of Mamba-2 in the place of attention:
 *
 *   n = norm(x);  z, v, k, q, a = W n      (in_proj; elsewhere v is x, k is B, q is C)
 *   v, k, q = silu(a short convolution of v, k, q along the sequence, with a bias)
 *   y = state space (q, k, v; steps a)     (kernels/ops/delta_rule.h, skip)
 *   x += Wout (norm(y silu(z)) by groups)          skips_norm: Wout (y silu(z))
 *
 * Factors (struct delta_scales) of v, k and q go into the convolution, which is linear; that of
 * what is added goes into the norm's weights, which are ones where there is no norm. Those of z
 * and a are arguments of the operations. So matrices keep the file's numbers.
 *
 * States, and what is kept for a step with drafts, are those of a gated delta net. So
 * struct delta holds them. The channels of the
 * convolution are put in the order that delta_rule reads: q, k, v. Sources: Dao and Gu,
 * Transformers are SSMs, 2024; modeling_granitemoehybrid.py of Hugging Face Transformers.
 */
#include "engine/parts/delta.h"

#include "base/alloc.h"
#include "engine/graph_calls.h"

/* Number of rows of in_proj without the last ones, which make the steps. */
static int32_t n_rows(const struct delta *a)
{
	return delta_channels(a) + a->n_v_heads * a->v_dim;
}

/* The checkpoint's channel (in the order v, k, q) that is channel i of the operation (q, k, v). */
static int32_t stored_channel(const struct delta *a, int32_t i)
{
	int32_t keys = a->n_k_heads * a->k_dim;
	int32_t values = a->n_v_heads * a->v_dim;
	if (i < keys) /* q */
		return values + keys + i;
	return i < 2 * keys ? values + i - keys : i - 2 * keys;
}

static float factor(float by)
{
	return by != 0 ? by : 1;
}

/* The factor of channel i of the operation. */
static float channel_scale(const struct delta *a, int32_t i)
{
	int32_t keys = a->n_k_heads * a->k_dim;
	return factor(i < keys ? a->by.q : i < 2 * keys ? a->by.k : a->by.v);
}

/* Rows of `width` floats of a tensor of channels, in the order of the operation. A bias, of width
 * 1, has no factor. */
static enum status load_channels(struct graph *g, int i, const char *name, int32_t width,
				 const float **out, struct fail *fail)
{
	const struct delta *a = &g->layers[i].delta;
	int32_t n = delta_channels(a);
	char full[200];
	const float *host;
	graph_layer_name(g, i, name, full);
	enum status st = width > 1 ? model_matrix(g->m, full, n, width, &host, fail)
				   : model_vector(g->m, full, n, &host, fail);
	if (st != OK)
		return st;
	size_t w = (size_t)width;
	float *reordered = xmalloc((size_t)n * w * sizeof *reordered);
	for (int32_t k = 0; k < n; k++)
		for (size_t c = 0; c < w; c++)
			reordered[(size_t)k * w + c] =
				host[(size_t)stored_channel(a, k) * w + c] *
				(width > 1 ? channel_scale(a, k) : 1);
	return graph_put_own(g, reordered, (size_t)n * w, out, fail);
}

static enum status load_norm(struct graph *g, int i, struct delta *a, int32_t n_v,
			     struct fail *fail)
{
	float by = factor(a->by.out);
	return a->skips_norm ? graph_put_filled(g, by, (size_t)n_v, &a->norm, fail)
			     : graph_put_scaled(g, i, "mamba.norm.weight", n_v, by, &a->norm,
						fail);
}

enum status mamba_load(struct graph *g, int i, struct fail *fail)
{
	struct delta *a = &g->layers[i].delta;
	int32_t hv = a->n_v_heads, n_v = hv * a->v_dim;
	const struct graph_part parts[] = {
		{"mamba.in_proj_rows", GRAPH_WEIGHT, n_rows(a), g->dim, &a->qkv},
		{"mamba.in_proj_steps", GRAPH_WEIGHT, hv, g->dim, &a->a},
		{"mamba.dt_bias", GRAPH_VECTOR, hv, 0, &a->dt_bias},
		{"mamba.D", GRAPH_VECTOR, hv, 0, &a->skip},
		{"mamba.out_proj", GRAPH_WEIGHT, g->dim, n_v, &a->out},
	};
	enum status st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	if (st == OK)
		st = load_norm(g, i, a, n_v, fail);
	if (st == OK)
		st = load_channels(g, i, "mamba.conv1d.weight", a->conv_width, &a->conv, fail);
	if (st == OK && a->has_conv_bias)
		st = load_channels(g, i, "mamba.conv1d.bias", 1, &a->conv_bias, fail);
	return st == OK ? delta_decay(g, i, "mamba.A_log", a, fail) : st;
}

/* qkvz has a row of z, v, k, q for each token, and ba has a. b is not read, so it is a too. */
static struct delta_views mamba_find(const struct graph *g, const struct delta *a, bool keeps)
{
	int32_t keys = a->n_k_heads * a->k_dim, row = n_rows(a);
	int32_t values = a->n_v_heads * a->v_dim, hv = a->n_v_heads;
	size_t act = dtype_bytes(g->b->act_type);
	void *qkvz = keeps ? a->kept_qkvz : g->delta.qkvz;
	float *ba = keeps ? a->kept_ba : g->delta.ba;
	const char *z = qkvz, *v = z + (size_t)values * act, *k = v + (size_t)values * act;
	const struct head_view steps = {ba, hv, 1, hv, hv};
	return (struct delta_views){
		.qkvz = qkvz, .ba = ba,
		.qkv = {{k + (size_t)keys * act, row, 1, keys, keys},
			{k, row, 1, keys, keys},
			{v, row, 1, values, values}},
		.n_parts = 3, .z = {z, row, 1, values, values}, .b = steps, .a = steps};
}

enum status mamba_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct delta_run *x, struct fail *fail)
{
	const struct delta *a = &l->delta;
	const struct delta_scratch *r = &g->delta;
	int32_t t = s->b->n_tok, n_v = a->n_v_heads * a->v_dim;
	const struct delta_views f = mamba_find(g, a, s->b->has_drafts);
	const struct gated_norm_args norm = {
		.n_tok = t, .n_heads = a->n_k_heads, .dim = n_v / a->n_k_heads,
		.eps = a->gate_eps, .x = r->y, .z = f.z, .weight = a->norm, .y = r->y,
		.gates_first = true, .skips_norm = a->skips_norm, .z_scale = a->by.z};
	LINEAR(.norm = x->norm, .n_tok = t, .x = g->n, .n_out = 2,
	       .out = {{.w = &a->qkv, .y = f.qkvz},
		       {.w = &a->a, .y = f.ba, .is_f32 = true}});
	TRY(delta_recur(g, a, &f, &(struct delta_tokens){
		.ids = &s->ids, .n_tok = t, .n_seq = s->b->n_seq, .norm = &norm}, fail));
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, s, &(struct graph_add){.w = &a->out, .in = r->y, .next = x->next},
			 fail);
}

enum status mamba_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
			 const struct graph_ids *ids, struct fail *fail)
{
	return delta_again(g, &l->delta, mamba_find(g, &l->delta, true), r, ids, fail);
}
