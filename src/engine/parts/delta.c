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
#include "engine/parts/delta.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

static enum status load_projections(struct graph *g, int i, struct delta *a,
				    struct fail *fail)
{
	int32_t d = g->dim, hv = a->n_v_heads, n_v = hv * a->v_dim;
	int32_t n_channels = delta_channels(a);
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
enum status delta_decay(struct graph *g, int i, const char *name, struct delta *a,
			      struct fail *fail)
{
	char full[200];
	const float *host;
	int32_t n = a->n_v_heads;
	enum status st = model_vector(g->m, graph_layer_name(g, i, name, full), n, &host, fail);
	if (st != OK)
		return st;
	float *decay = xmalloc((size_t)n * sizeof *decay);
	for (int32_t h = 0; h < n; h++)
		decay[h] = (float)-exp((double)host[h]);
	return graph_put_own(g, decay, (size_t)n, &a->decay, fail);
}

enum status delta_load(struct graph *g, int i, struct fail *fail)
{
	struct delta *a = &g->layers[i].delta;
	int32_t hv = a->n_v_heads;
	const struct graph_part parts[] = {
		{"linear_attn.conv1d.weight", GRAPH_MATRIX,
		 delta_channels(a), a->conv_width, &a->conv},
		{"linear_attn.dt_bias", GRAPH_VECTOR, hv, 0, &a->dt_bias},
		{"linear_attn.norm.weight", GRAPH_VECTOR, a->v_dim, 0, &a->norm},
		{"linear_attn.out_proj", GRAPH_WEIGHT, g->dim, hv * a->v_dim, &a->out},
	};
	enum status st = load_projections(g, i, a, fail);
	if (st == OK)
		st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	return st == OK ? delta_decay(g, i, "linear_attn.A_log", a, fail) : st;
}

/* The number of the first layer with such a state, or L. All are alike. */
static int first_of(const struct graph *g)
{
	int i = 0;
	while (i < g->n_layers && g->layers[i].delta.kind == DELTA_NONE)
		i++;
	return i;
}

/* The memory that Kimi delta attention and Mamba-2 need too. */
enum status mamba_alloc(struct graph *g, struct fail *fail)
{
	struct delta_scratch *r = &g->delta;
	int first = first_of(g);
	const struct delta *of = &g->layers[first].delta;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t slots = (size_t)g->limits.n_states, kept = MIN(t, (size_t)ENGINE_DRAFT_TOK);
	size_t n_channels = (size_t)delta_channels(of), hv = (size_t)of->n_v_heads;
	size_t n_v = hv * (size_t)of->v_dim, n_ba = hv + (size_t)delta_steps(of);
	const struct graph_want wanted[] = {
		{&r->qkvz, t * (n_channels + n_v) * act},
		{&r->ba, t * n_ba * sizeof *r->ba},
		{&r->mixed, t * n_channels * act},
		{&r->y, t * n_v * act},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	for (int i = first; i < g->n_layers && st == OK; i++) {
		struct delta *a = &g->layers[i].delta;
		a->conv_bytes = n_channels * (size_t)(of->conv_width - 1) * sizeof(float);
		a->state_bytes = n_v * (size_t)of->k_dim * sizeof(float);
		const struct graph_want states[] = {
			{&a->conv_state, slots * a->conv_bytes},
			{&a->state, slots * a->state_bytes},
			{&a->kept_qkvz, kept * (n_channels + n_v) * act},
			{&a->kept_ba, kept * n_ba * sizeof *a->kept_ba},
		};
		if (a->kind != DELTA_NONE)
			st = graph_take_all(g, states, ARRAY_LEN(states), fail);
	}
	return st;
}

enum status delta_alloc(struct graph *g, struct fail *fail)
{
	struct delta_scratch *r = &g->delta;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	int i = first_of(g);
	struct delta *a = &g->layers[i].delta;
	enum status st = mamba_alloc(g, fail);
	if (st != OK || g->b->act_type == DTYPE_F32 || !a->may_sharpen)
		return st;
	a->is_sharp = true;
	size_t n = (size_t)delta_channels(a);
	if (graph_layer_has(g, i, "linear_attn.in_proj_qkvz"))
		n += (size_t)(a->n_v_heads * a->v_dim);
	const struct graph_want wanted[] = {
		{&r->pair, 2 * t * (size_t)g->dim * act},
		{&r->sums, 2 * t * n * sizeof *r->sums},
		{&a->kept_sums,
		 2 * MIN(t, (size_t)ENGINE_DRAFT_TOK) * n * sizeof *a->kept_sums},
	};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

static void find_fused_ba(const struct delta *a, struct delta_views *out)
{
	int32_t hk = a->n_k_heads, hv = a->n_v_heads, each = hv / hk;
	const float *b = out->ba;
	out->b = (struct head_view){b, 2 * hv, hk, each, 2 * each};
	out->a = (struct head_view){b + each, 2 * hv, hk, each, 2 * each};
}

static struct delta_views find_split(const struct graph *g, const struct delta *of, int32_t t,
				     void *qkvz, float *ba)
{
	int32_t n_channels = delta_channels(of), hv = of->n_v_heads, n_v = hv * of->v_dim;
	const char *z = (const char *)qkvz +
			(size_t)t * (size_t)n_channels * dtype_bytes(g->b->act_type);
	const float *b = ba, *a = b + (size_t)t * (size_t)hv;
	return (struct delta_views){
		.qkvz = qkvz, .ba = ba,
		.qkv = {{qkvz, n_channels, 1, n_channels, n_channels}},
		.n_parts = 1, .z = {z, n_v, 1, n_v, n_v},
		.b = {b, hv, 1, hv, hv}, .a = {a, hv, 1, hv, hv}};
}

static struct delta_views find_fused(const struct graph *g, const struct delta *of,
				     void *qkvz, float *ba)
{
	int32_t hk = of->n_k_heads, k = of->k_dim, each = of->n_v_heads / hk;
	int32_t v = each * of->v_dim, pitch = 2 * k + 2 * v, row = hk * pitch;
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

/* Finds the views of t tokens. keeps: the step has drafts. */
static struct delta_views delta_find(const struct graph *g, const struct delta *a, int32_t t,
				     bool keeps)
{
	void *qkvz = keeps ? a->kept_qkvz : g->delta.qkvz;
	float *ba = keeps ? a->kept_ba : g->delta.ba;
	struct delta_views f =
		a->is_fused ? find_fused(g, a, qkvz, ba) : find_split(g, a, t, qkvz, ba);
	if (a->is_fused || a->ba_fused)
		find_fused_ba(a, &f);
	if (a->is_sharp)
		find_sums(g, t, keeps ? a->kept_sums : g->delta.sums, &f);
	return f;
}

/* True if b and a have another format than the others, so that their products are a launch of
 * their own. They are then done beside the convolution, which does not wait for them. */
static bool is_apart(const struct delta *a)
{
	return a->b.quant != a->qkv.quant;
}

/* Lists the outputs of the projections b and a in out. Returns their number. */
static int gates_of(const struct delta *a, const struct delta_views *f,
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
static enum status sum_up(struct graph *g, const struct layer *l, const struct graph_step *s,
			  const struct delta_views *f, struct fail *fail)
{
	const struct delta *a = &l->delta;
	int32_t t = s->b->n_tok;
	bool is_one = 2 * t <= g->b->few_tok || t > g->b->few_tok;
	size_t row = (size_t)g->dim * dtype_bytes(g->b->act_type);
	for (int32_t at = 0; at < 2 * t; at += is_one ? 2 * t : t)
		RUN(linear, .n_tok = is_one ? 2 * t : t, .n_out = 1,
		    .x = (const char *)g->delta.pair + (size_t)at * row,
		    .out = {{.w = &a->qkv, .is_f32 = true,
			     .y = f->sums + (size_t)at * (size_t)a->qkv.n}});
	/* Adapters read the rounded half alone: what they add is small. */
	PART_OF(graph_lora_add, linear_args, .n_tok = t, .x = g->delta.pair, .n_out = 1,
		.out = {{.w = &a->qkv, .is_f32 = true, .y = f->sums}});
	return OK;
}

/* *beside: the products that are left for recur; n_out 0: none. norm: as delta_run's. */
static enum status project(struct graph *g, const struct layer *l, const struct graph_step *s,
			   const struct rms_norm_args *norm, const struct delta_views *f,
			   struct linear_args *beside, struct fail *fail)
{
	const struct delta *a = &l->delta;
	int32_t t = s->b->n_tok;
	struct rms_norm_args own = norm ? *norm : (struct rms_norm_args){0};
	struct linear_args all = {.norm = norm ? &own : NULL, .n_tok = t, .x = g->n};
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
	TRY(graph_linear_beside(g, l, s, &all, beside, fail));
	return a->is_sharp ? sum_up(g, l, s, f, fail) : OK;
}

enum status delta_recur(struct graph *g, const struct delta *a, const struct delta_views *f,
			const struct delta_tokens *x, struct fail *fail)
{
	const struct delta_scratch *r = &g->delta;
	const struct graph_ids *ids = x->ids;
	int32_t t = x->n_tok;
	profile_enter(g->b->profile, PROFILE_DELTA);
	profile_bytes(g->b->profile, PROFILE_DELTA,
		      (double)x->n_seq * a->n_v_heads * a->k_dim * a->v_dim *
			      (double)sizeof(float));
	RUN(causal_conv, .n_tok = t, .n_seq = x->n_seq, .width = a->conv_width,
	    .n_parts = f->n_parts, .part = {f->qkv[0], f->qkv[1], f->qkv[2]},
	    .low = {f->low[0], f->low[1], f->low[2]}, .low_scale = 1 / RMS_NORM_LOW,
	    .weight = a->conv, .bias = a->conv_bias, .first_tok = ids->first_tok,
	    .states = ids->states, .state = a->conv_state, .y = r->mixed, .beside = x->beside);
	RUN(delta_rule, .n_tok = t, .n_seq = x->n_seq, .n_k_heads = a->n_k_heads,
	    .n_v_heads = a->n_v_heads, .k_dim = a->k_dim, .v_dim = a->v_dim,
	    .heads_tiled = a->heads_tiled, .by_channel = a->kind == DELTA_KDA, .qkv = r->mixed,
	    .a = f->a, .b = f->b, .decay = a->decay, .dt_bias = a->dt_bias, .skip = a->skip,
	    .a_scale = a->by.a, .g_min = a->g_min, .first_tok = ids->first_tok,
	    .states = ids->states, .state = a->state, .y = r->y, .norm = x->norm);
	return OK;
}

enum status delta_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct delta_run *x, struct fail *fail)
{
	const struct delta *a = &l->delta;
	const struct delta_scratch *r = &g->delta;
	int32_t t = s->b->n_tok;
	const struct delta_views f = delta_find(g, a, t, s->b->has_drafts);
	const struct gated_norm_args norm = {
		.n_tok = t, .n_heads = a->n_v_heads, .dim = a->v_dim,
		.eps = a->gate_eps, .x = r->y, .z = f.z, .weight = a->norm, .y = r->y,
		.is_sigmoid = a->is_sigmoid};
	struct linear_args beside;
	enum status st = project(g, l, s, x->norm, &f, &beside, fail);
	const struct delta_tokens all = {.ids = &s->ids, .n_tok = t, .n_seq = s->b->n_seq,
					 .norm = &norm, .beside = beside.n_out ? &beside : NULL};
	if (st == OK)
		st = delta_recur(g, a, &f, &all, fail);
	if (st != OK)
		return st;
	profile_enter(g->b->profile, PROFILE_OUT);
	return graph_add(g, l, s, &(struct graph_add){.w = &a->out, .in = r->y, .next = x->next},
			 fail);
}

/* Moves a view on by `first` tokens, of elements of so many bytes. */
static void skip_tokens(struct head_view *v, int32_t first, size_t element)
{
	v->p = (const char *)v->p + (size_t)first * (size_t)v->row * element;
}

enum status delta_again(struct graph *g, const struct delta *a, struct delta_views f,
			const struct engine_replay *r, const struct graph_ids *ids,
			struct fail *fail)
{
	for (int i = 0; i < f.n_parts; i++) {
		skip_tokens(&f.qkv[i], r->first_tok,
			    f.low[i] ? sizeof(float) : dtype_bytes(g->b->act_type));
		if (f.low[i])
			f.low[i] += (size_t)r->first_tok * (size_t)f.qkv[i].row;
	}
	skip_tokens(&f.a, r->first_tok, sizeof(float));
	skip_tokens(&f.b, r->first_tok, sizeof(float));
	return delta_recur(g, a, &f,
			   &(struct delta_tokens){.ids = ids, .n_tok = r->n_tok, .n_seq = 1}, fail);
}

enum status delta_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
			 const struct graph_ids *ids, struct fail *fail)
{
	return delta_again(g, &l->delta, delta_find(g, &l->delta, g->kept_tok, true), r, ids, fail);
}
