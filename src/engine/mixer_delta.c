/* SPDX-License-Identifier: Apache-2.0
 *
 * A gated delta net in the place of attention:
 *
 *   n = norm(x);  q, k, v, z, b, a = W n
 *   q, k, v = silu(a short convolution of q, k, v along the sequence)
 *   y = gated delta rule (q, k, v; decay of a, strength of b)
 *   x += Wout (norm(y) * silu(z))       or sigmoid(z)
 *
 * Checkpoints have the projections in one of two ways:
 *   split   in_proj_qkv (C), in_proj_z (Hv V), in_proj_b, in_proj_a (Hv)
 *   fused   in_proj_qkvz: for each key head its q, its k, then v and z of its value
 *           heads; in_proj_ba: for each key head b, then a of its value heads
 *           (GGUF of Qwen3-Next: the first two of split, and in_proj_ba)
 * Between the operations the activation type of the backend is kept. TRIED: float32 from
 * the projections to the last norm. It made the mean error of three small models 0 to
 * 40 % smaller, and the traffic twice as large. The largest errors stayed: they come from
 * the rounded input of the projections, that of q and k most (docs/gpu.md).
 *
 * So the first of these layers is sharp, unless the backend's activations are float32. Its
 * norm leaves two halves of each number, and q, k and v are the sum of the products of both,
 * in float32, until the convolution has them. Further layers would gain little: what rounding
 * costs there is less by the layer (docs/gpu.md).
 *
 * Rows stay as they are; where an operation finds them is said by a head_view. Source:
 * modeling_qwen3_next.py and modeling_qwen3_5.py of Hugging Face Transformers.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph.h"

static enum status load_projections(struct graph *g, int i, struct delta_layer *a,
				    struct fail *fail)
{
	const struct model_config *c = g->c;
	int32_t d = c->d_model, hv = c->delta_v_heads, n_v = hv * c->delta_v_dim;
	int32_t n_channels = (int32_t)model_delta_channels(c);
	const struct graph_part fused[] = {
		{"linear_attn.in_proj_qkvz", GRAPH_WEIGHT, n_channels + n_v, d, &a->qkv},
		{"linear_attn.in_proj_ba", GRAPH_WEIGHT, 2 * hv, d, &a->b},
	};
	const struct graph_part split[] = {
		{"linear_attn.in_proj_qkv", GRAPH_WEIGHT, n_channels, d, &a->qkv},
		{"linear_attn.in_proj_z", GRAPH_WEIGHT, n_v, d, &a->z},
		{"linear_attn.in_proj_b", GRAPH_WEIGHT, hv, d, &a->b},
		{"linear_attn.in_proj_a", GRAPH_WEIGHT, hv, d, &a->a},
	};
	const struct graph_part mixed[] = {split[0], split[1], fused[1]};
	a->is_fused = graph_layer_has(g, i, "linear_attn.in_proj_qkvz");
	a->ba_fused = graph_layer_has(g, i, "linear_attn.in_proj_ba");
	if (a->is_fused)
		return graph_load_parts(g, i, fused, 2, fail);
	return a->ba_fused ? graph_load_parts(g, i, mixed, 3, fail)
			   : graph_load_parts(g, i, split, 4, fail);
}

/* -exp(A_log), in double: a float16 A_log may be so large that a narrower exp is not
 * finite. */
enum status mixer_delta_decay(struct graph *g, int i, const char *name, struct delta_layer *a,
			      struct fail *fail)
{
	char full[200];
	const float *host;
	int32_t n = g->c->delta_v_heads;
	enum status st = model_vector(g->m, graph_layer_name(g, i, name, full), n, &host, fail);
	if (st != OK)
		return st;
	float *decay = xmalloc((size_t)n * sizeof *decay);
	for (int32_t h = 0; h < n; h++)
		decay[h] = (float)-exp((double)host[h]);
	st = graph_put_floats(g, decay, (size_t)n, &a->decay, fail);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, fail);
	free(decay);
	return st;
}

static enum status load(struct graph *g, int i, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct delta_layer *a = &g->layers[i].delta;
	int32_t hv = c->delta_v_heads;
	const struct graph_part parts[] = {
		{"linear_attn.conv1d.weight", GRAPH_MATRIX,
		 (int32_t)model_delta_channels(c), c->conv_width, &a->conv},
		{"linear_attn.dt_bias", GRAPH_VECTOR, hv, 0, &a->dt_bias},
		{"linear_attn.norm.weight", GRAPH_VECTOR, c->delta_v_dim, 0, &a->norm},
		{"linear_attn.out_proj", GRAPH_WEIGHT, c->d_model, hv * c->delta_v_dim,
		 &a->out},
	};
	enum status st = load_projections(g, i, a, fail);
	if (st == OK)
		st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	return st == OK ? mixer_delta_decay(g, i, "linear_attn.A_log", a, fail) : st;
}

enum status mixer_delta_alloc(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct delta_scratch *r = &g->delta;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t slots = (size_t)g->limits.n_states * sizeof(float);
	size_t n_channels = (size_t)model_delta_channels(c), hv = (size_t)c->delta_v_heads;
	size_t n_v = hv * (size_t)c->delta_v_dim;
	const struct graph_want wanted[] = {
		{&r->qkvz, t * (n_channels + n_v) * act},
		{&r->ba, t * 2 * hv * sizeof *r->ba},
		{&r->mixed, t * n_channels * act},
		{&r->y, t * n_v * act},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	size_t kept = MIN(t, (size_t)ENGINE_DRAFT_TOK);
	for (int i = 0; i < c->n_layers && st == OK; i++) {
		struct delta_layer *a = &g->layers[i].delta;
		const struct graph_want states[] = {
			{&a->conv_state, slots * n_channels * (size_t)(c->conv_width - 1)},
			{&a->state, slots * n_v * (size_t)c->delta_k_dim},
			{&a->kept_qkvz, kept * (n_channels + n_v) * act},
			{&a->kept_ba, kept * 2 * hv * sizeof *a->kept_ba},
		};
		if (c->is_linear[i])
			st = graph_take_all(g, states, ARRAY_LEN(states), fail);
	}
	return st;
}

static enum status alloc(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct delta_scratch *r = &g->delta;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	enum status st = mixer_delta_alloc(g, fail);
	int i = 0;
	while (i < c->n_layers && !c->is_linear[i])
		i++;
	/* With several streams the norm is not an operation of its own. */
	if (st != OK || g->b->act_type == DTYPE_F32 || c->hyper_n || i == c->n_layers)
		return st;
	struct delta_layer *a = &g->layers[i].delta;
	if (a->qkv.turns) /* of rows with what rounding took */
		return OK;
	a->is_sharp = true;
	size_t n = (size_t)model_delta_channels(c);
	if (graph_layer_has(g, i, "linear_attn.in_proj_qkvz"))
		n += (size_t)(c->delta_v_heads * c->delta_v_dim);
	const struct graph_want wanted[] = {
		{&r->pair, 2 * t * (size_t)c->d_model * act},
		{&r->sums, 2 * t * n * sizeof *r->sums},
		{&a->kept_sums,
		 2 * MIN(t, (size_t)ENGINE_DRAFT_TOK) * n * sizeof *a->kept_sums},
	};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

/* Where the operations find what the projections of t tokens left. */
struct delta_views {
	void *qkvz;
	float *ba, *sums;
	struct head_view qkv[3], z, b, a;
	const float *low[3]; /* of qkv: causal_conv_args.low */
	int n_parts;
};

static void find_fused_ba(const struct graph *g, struct delta_views *out)
{
	int32_t hk = g->c->delta_k_heads, hv = g->c->delta_v_heads, each = hv / hk;
	const float *b = out->ba;
	out->b = (struct head_view){b, 2 * hv, hk, each, 2 * each};
	out->a = (struct head_view){b + each, 2 * hv, hk, each, 2 * each};
}

static struct delta_views find_split(const struct graph *g, int32_t t, void *qkvz, float *ba)
{
	const struct model_config *c = g->c;
	int32_t n_channels = (int32_t)model_delta_channels(c), hv = c->delta_v_heads;
	int32_t n_v = hv * c->delta_v_dim;
	const char *z = (const char *)qkvz +
			(size_t)t * (size_t)n_channels * dtype_bytes(g->b->act_type);
	const float *b = ba, *a = b + (size_t)t * (size_t)hv;
	return (struct delta_views){
		.qkvz = qkvz, .ba = ba,
		.qkv = {{qkvz, n_channels, 1, n_channels, n_channels}},
		.n_parts = 1, .z = {z, n_v, 1, n_v, n_v},
		.b = {b, hv, 1, hv, hv}, .a = {a, hv, 1, hv, hv}};
}

static struct delta_views find_fused(const struct graph *g, void *qkvz, float *ba)
{
	const struct model_config *c = g->c;
	int32_t hk = c->delta_k_heads, k = c->delta_k_dim, each = c->delta_v_heads / hk;
	int32_t v = each * c->delta_v_dim, pitch = 2 * k + 2 * v, row = hk * pitch;
	size_t act = dtype_bytes(g->b->act_type);
	const char *p = qkvz;
	return (struct delta_views){
		.qkvz = qkvz, .ba = ba,
		.qkv = {{p, row, hk, k, pitch},
			{p + (size_t)k * act, row, hk, k, pitch},
			{p + (size_t)(2 * k) * act, row, hk, v, pitch}},
		.n_parts = 3, .z = {p + (size_t)(2 * k + v) * act, row, hk, v, pitch}};
}

/* q, k and v of a sharp layer are in the sums; in other layers they are in qkvz. */
static void find_sums(const struct graph *g, int32_t t, float *sums, struct delta_views *out)
{
	const float *low = sums + (size_t)t * (size_t)out->qkv[0].row;
	out->sums = sums;
	for (int i = 0; i < out->n_parts; i++) {
		size_t bytes = (size_t)((const char *)out->qkv[i].p - (const char *)out->qkvz);
		size_t at = bytes / dtype_bytes(g->b->act_type);
		out->qkv[i].p = sums + at;
		out->low[i] = low + at;
	}
}

/* Finds the views of t tokens. keeps: the step has guesses. */
static struct delta_views find(const struct graph *g, const struct delta_layer *a, int32_t t,
			       bool keeps)
{
	void *qkvz = keeps ? a->kept_qkvz : g->delta.qkvz;
	float *ba = keeps ? a->kept_ba : g->delta.ba;
	struct delta_views f =
		a->is_fused ? find_fused(g, qkvz, ba) : find_split(g, t, qkvz, ba);
	if (a->is_fused || a->ba_fused)
		find_fused_ba(g, &f);
	if (a->is_sharp)
		find_sums(g, t, keeps ? a->kept_sums : g->delta.sums, &f);
	return f;
}

/* True if b and a have another format than the others, so that their products are a launch of
 * their own. They are then done beside the convolution, which does not wait for them. */
static bool is_apart(const struct delta_layer *a)
{
	return a->b.quant != a->qkv.quant;
}

/* Lists the outputs of the projections b and a in out. Returns their number. */
static int gates_of(const struct delta_layer *a, const struct delta_views *f,
		    struct linear_out *out)
{
	if (a->is_fused || a->ba_fused) {
		out[0] = (struct linear_out){.w = &a->b, .y = f->ba, .is_f32 = true};
		return 1;
	}
	out[0] = (struct linear_out){.w = &a->b, .y = (void *)(uintptr_t)f->b.p, .is_f32 = true};
	out[1] = (struct linear_out){.w = &a->a, .y = (void *)(uintptr_t)f->a.p, .is_f32 = true};
	return 2;
}

/* The products of a sharp layer, of 2 t rows. If t is within few_tok and 2 t is not, they take
 * two launches, because kernels for many tokens give other bits. */
static enum status sum_up(struct graph *g, const struct delta_layer *a, int32_t t,
			  const struct delta_views *f, struct fail *fail)
{
	bool is_one = 2 * t <= g->b->few_tok || t > g->b->few_tok;
	size_t row = (size_t)g->c->d_model * dtype_bytes(g->b->act_type);
	for (int32_t at = 0; at < 2 * t; at += is_one ? 2 * t : t)
		RUN(linear, .n_tok = is_one ? 2 * t : t, .n_out = 1,
		    .x = (const char *)g->delta.pair + (size_t)at * row,
		    .out = {{.w = &a->qkv, .is_f32 = true,
			     .y = f->sums + (size_t)at * (size_t)a->qkv.n}});
	return OK;
}

/* *beside: the products that are left for recur; n_out 0: none. */
static enum status project(struct graph *g, const struct layer *l, int32_t t,
			   const struct delta_views *f, struct linear_args *beside,
			   struct fail *fail)
{
	const struct delta_layer *a = &l->delta;
	struct rms_norm_args own = {.n_tok = t, .dim = g->c->d_model,
				    .eps = g->c->norm_eps, .x = g->x,
				    .weight = l->norms[NORM_MIXER], .y = g->n};
	struct linear_args all = {.norm = g->c->hyper_n ? NULL : &own, .n_tok = t, .x = g->n};
	if (a->is_sharp) {
		all.x = own.y = g->delta.pair;
		own.y_low = (char *)g->delta.pair + (size_t)t * (size_t)own.dim *
							    dtype_bytes(g->b->act_type);
	}
	if (!a->is_sharp || a->is_fused)
		all.out[all.n_out++] = (struct linear_out){.w = &a->qkv, .y = f->qkvz};
	if (!a->is_fused)
		all.out[all.n_out++] = (struct linear_out){
			.w = &a->z, .y = (void *)(uintptr_t)f->z.p};
	*beside = (struct linear_args){.n_tok = t, .x = all.x};
	if (is_apart(a))
		beside->n_out = gates_of(a, f, beside->out);
	else
		all.n_out += gates_of(a, f, all.out + all.n_out);
	enum status st = g->b->ops->linear(g->b, &all);
	if (st != OK)
		return graph_op_failed(g, "linear", t, st, fail);
	return a->is_sharp ? sum_up(g, a, t, f, fail) : OK;
}

/* Runs the recurrence of t tokens, whose views are f, into y. ids: where states are read and
 * written. norm: of y, or NULL. beside: products that the recurrence needs, or NULL. */
static enum status recur(struct graph *g, const struct delta_layer *a,
			 const struct delta_views *f, const struct graph_ids *ids, int32_t t,
			 int32_t n_seq, const struct gated_norm_args *norm,
			 const struct linear_args *beside, struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct delta_scratch *r = &g->delta;
	profile_enter(g->b->profile, PROFILE_DELTA);
	profile_bytes(g->b->profile, PROFILE_DELTA,
		      (double)n_seq * c->delta_v_heads * c->delta_k_dim * c->delta_v_dim *
			      (double)sizeof(float));
	RUN(causal_conv, .n_tok = t, .n_seq = n_seq, .width = c->conv_width,
	    .n_parts = f->n_parts, .part = {f->qkv[0], f->qkv[1], f->qkv[2]},
	    .low = {f->low[0], f->low[1], f->low[2]}, .low_scale = 1 / RMS_NORM_LOW,
	    .weight = a->conv, .first_tok = ids->first_tok, .states = ids->states,
	    .state = a->conv_state, .y = r->mixed, .beside = beside);
	RUN(delta_rule, .n_tok = t, .n_seq = n_seq, .n_k_heads = c->delta_k_heads,
	    .n_v_heads = c->delta_v_heads, .k_dim = c->delta_k_dim,
	    .v_dim = c->delta_v_dim, .heads_in_turn = c->delta_in_turn, .qkv = r->mixed,
	    .a = f->a, .b = f->b,
	    .decay = a->decay, .dt_bias = a->dt_bias, .first_tok = ids->first_tok,
	    .states = ids->states, .state = a->state, .y = r->y, .norm = norm);
	return OK;
}

static enum status run(struct graph *g, const struct layer *l, const struct graph_step *s,
		       struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct delta_layer *a = &l->delta;
	const struct delta_scratch *r = &g->delta;
	int32_t t = s->b->n_tok;
	const struct delta_views f = find(g, a, t, s->b->has_guesses);
	const struct gated_norm_args norm = {
		.n_tok = t, .n_heads = c->delta_v_heads, .dim = c->delta_v_dim,
		.eps = c->norm_eps, .x = r->y, .z = f.z, .weight = a->norm, .y = r->y,
		.is_sigmoid = c->sigmoid_gate};
	struct linear_args beside;
	enum status st = project(g, l, t, &f, &beside, fail);
	if (st == OK)
		st = recur(g, a, &f, &s->ids, t, s->b->n_seq, &norm,
			   beside.n_out ? &beside : NULL, fail);
	if (st != OK)
		return st;
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, t, &(struct graph_add){&a->out, NULL, r->y, NORM_MIXER_POST, 0},
			 fail);
}

void mixer_delta_skip(struct head_view *v, int32_t first, size_t element)
{
	v->p = (const char *)v->p + (size_t)first * (size_t)v->row * element;
}

static enum status replay(struct graph *g, const struct layer *l,
			  const struct engine_replay *r, const struct graph_ids *ids,
			  struct fail *fail)
{
	struct delta_views f = find(g, &l->delta, g->kept_tok, true);
	for (int i = 0; i < f.n_parts; i++) {
		mixer_delta_skip(&f.qkv[i], r->first_tok,
				 f.low[i] ? sizeof(float) : dtype_bytes(g->b->act_type));
		if (f.low[i])
			f.low[i] += (size_t)r->first_tok * (size_t)f.qkv[i].row;
	}
	mixer_delta_skip(&f.a, r->first_tok, sizeof(float));
	mixer_delta_skip(&f.b, r->first_tok, sizeof(float));
	return recur(g, &l->delta, &f, ids, r->n_tok, 1, NULL, NULL, fail);
}

const struct mixer mixer_delta = {load, alloc, run, replay};
