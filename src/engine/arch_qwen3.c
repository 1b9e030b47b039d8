/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3, dense and with experts, and what it comes from: Llama, Mistral, Qwen2;
 * and GLM-4-MoE, which is close.
 *
 *   x = embed[token]
 *   each layer:
 *     n = norm(x);  q, k, v = W n
 *     norm (Qwen3) and rotate each head of q and k, write k and v to the cache
 *     x += Wo attention(q, cache)
 *     n = norm(x)
 *     dense:    x += Wdown (silu(Wgate n) * Wup n)
 *     experts:  x += the same of the chosen experts, weighted by the router
 *               x += dense of the shared experts (GLM), of all their width at once
 *   logits = Whead norm(x), for the rows that are wanted
 *
 * Layer i has experts where (i + 1) % sparse_step == 0 and it is not among
 * mlp_only_layers. Layers may see a window of the last tokens only; q, k, v and o may
 * have a bias. Sources: modeling_llama.py, modeling_mistral.py, modeling_qwen2.py,
 * modeling_qwen3.py, modeling_qwen3_moe.py and modeling_qwen3_omni_moe.py (the
 * thinker: of text alone, its three rows of positions are one), modeling_glm4_moe.py
 * of Hugging Face Transformers.
 *
 * All memory is taken in create. What changes from step to step is uploaded in one
 * block of int32 (struct step_ids), so that the launches of a step are the same for
 * every step of the same shape.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/arch.h"
#include "engine/rope.h"

struct layer {
	const float *attn_norm, *ffn_norm, *q_norm, *k_norm;
	const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL: none */
	struct weight q, k, v, o;
	int32_t window; /* tokens it sees; 0: all */
	bool has_experts;
	struct weight gate, up, down; /* dense, or the shared experts */
	struct weight router;
	const float *router_bias; /* (E), or NULL */
	struct experts experts;
	void *k_pages, *v_pages; /* (n_pages, G, P, K) kv */
};

/* On the device: one step's ids. */
struct step_ids {
	const int32_t *token, *position, *seq_of, *slot, *first_tok, *page_table,
		*logit_rows;
	int32_t n_ctx_max; /* host; arch_step_key */
};

struct qwen3 {
	const struct model_config *c;
	struct model *m;
	struct backend *b;
	struct arch_limits limits;
	struct weight embed, head;
	const float *out_norm;
	float scale;               /* of q . k */
	uint16_t id;               /* arch_graph_id */
	struct layer *layers;      /* (L) */
	struct weight *expert_weights; /* host, all layers' */
	void **blocks;             /* device memory, for destroy */
	size_t n_blocks;

	/* Scratch on the device, T = max_batch_tok. */
	int32_t *ids, *ids_host;   /* room for one step_ids */
	double *inv_freq;          /* (K/2) */
	float *rope;               /* (T, K/2, 2) */
	float *x;                  /* (T, D) */
	void *n;                   /* (T, D) act */
	void *q, *k, *v, *attn;    /* (T, H or G, K) act */
	void *gate, *up;           /* (T, F) act, dense */
	float *router_logits, *expert_weight; /* (T, E), (T, U) */
	int32_t *expert_id, *expert_work;
	void *expert_h;            /* (T, U, expert F) act */
	float *rows;               /* (ARCH_LOGIT_ROWS, D) */
	void *rows_n;              /* (ARCH_LOGIT_ROWS, D) act */
	float *logits;             /* (ARCH_LOGIT_ROWS, V) */
};

/* --- loading ---------------------------------------------------------------- */

/* out: where the pointer goes. */
static enum status take(struct qwen3 *g, size_t n_bytes, void *out, struct fail *fail)
{
	void *p;
	enum status st = g->b->ops->alloc(g->b, n_bytes, &p);
	if (st != OK)
		return fail_set(fail, st, "%s has no %zu bytes for the model's memory",
				g->b->device, n_bytes);
	g->blocks = xrealloc(g->blocks, (g->n_blocks + 1) * sizeof *g->blocks);
	g->blocks[g->n_blocks++] = p;
	memcpy(out, &p, sizeof p);
	return OK;
}

static enum status load(struct qwen3 *g, const char *name, int32_t n, int32_t k,
			struct weight *out, struct fail *fail)
{
	struct weight host;
	enum status st = model_weight(g->m, name, n, k, &host, fail);
	return st == OK ? g->b->ops->load_weight(g->b, &host, out, fail) : st;
}

static enum status load_vector(struct qwen3 *g, const char *name, int32_t n,
			       const float **out, struct fail *fail)
{
	const float *host;
	void *p;
	size_t n_bytes = (size_t)n * sizeof *host;
	enum status st = model_vector(g->m, name, n, &host, fail);
	if (st == OK)
		st = take(g, n_bytes, &p, fail);
	if (st == OK)
		st = g->b->ops->upload(g->b, p, host, n_bytes);
	if (st == OK)
		*out = p;
	return st;
}

/* The tensors of a layer by their names below model.layers.<i>; a row is a weight
 * (rows, cols), or a vector of `rows` where cols is 0. */
struct part {
	const char *name;
	int32_t rows, cols;
	void *out;
};

static enum status load_parts(struct qwen3 *g, int i_layer, const struct part *parts,
			      size_t n, struct fail *fail)
{
	for (size_t i = 0; i < n; i++) {
		char name[160];
		const struct part *p = &parts[i];
		snprintf(name, sizeof name, "%smodel.layers.%d.%s", g->c->prefix,
			 i_layer, p->name);
		enum status st =
			p->cols ? load(g, name, p->rows, p->cols, p->out, fail)
				: load_vector(g, name, p->rows, p->out, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

static enum status load_attention(struct qwen3 *g, int i, struct layer *l,
				  struct fail *fail)
{
	int32_t d = g->c->d_model, k = g->c->head_dim;
	int32_t nq = g->c->n_heads * k, nkv = g->c->n_kv_heads * k;
	const struct part parts[] = {
		{"input_layernorm.weight", d, 0, &l->attn_norm},
		{"post_attention_layernorm.weight", d, 0, &l->ffn_norm},
		{"self_attn.q_proj", nq, d, &l->q},
		{"self_attn.k_proj", nkv, d, &l->k},
		{"self_attn.v_proj", nkv, d, &l->v},
		{"self_attn.o_proj", d, nq, &l->o},
	};
	const struct part norms[] = {
		{"self_attn.q_norm.weight", k, 0, &l->q_norm},
		{"self_attn.k_norm.weight", k, 0, &l->k_norm},
	};
	const struct part biases[] = {
		{"self_attn.q_proj.bias", nq, 0, &l->q_bias},
		{"self_attn.k_proj.bias", nkv, 0, &l->k_bias},
		{"self_attn.v_proj.bias", nkv, 0, &l->v_bias},
		{"self_attn.o_proj.bias", d, 0, &l->o_bias},
	};
	enum status st = load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	if (st == OK && g->c->qk_norm)
		st = load_parts(g, i, norms, ARRAY_LEN(norms), fail);
	if (st == OK && g->c->qkv_bias)
		st = load_parts(g, i, biases, g->c->o_bias ? 4 : 3, fail);
	return st;
}

/* Width of the dense part of a layer; 0: it has none. */
static int32_t dense_dim(const struct model_config *c, const struct layer *l)
{
	return l->has_experts ? c->n_shared * c->expert_dim : c->ffn_dim;
}

static enum status load_dense(struct qwen3 *g, int i, struct layer *l,
			      struct fail *fail)
{
	int32_t d = g->c->d_model, f = dense_dim(g->c, l);
	const struct part dense[] = {
		{"mlp.gate_proj", f, d, &l->gate},
		{"mlp.up_proj", f, d, &l->up},
		{"mlp.down_proj", d, f, &l->down},
	};
	const struct part shared[] = {
		{"mlp.shared_experts.gate_proj", f, d, &l->gate},
		{"mlp.shared_experts.up_proj", f, d, &l->up},
		{"mlp.shared_experts.down_proj", d, f, &l->down},
	};
	return load_parts(g, i, l->has_experts ? shared : dense, 3, fail);
}

static enum status load_experts(struct qwen3 *g, int i, struct layer *l,
				struct fail *fail)
{
	int32_t d = g->c->d_model, f = g->c->expert_dim, n = g->c->n_experts;
	struct weight *w = g->expert_weights + (size_t)i * 3 * (size_t)n;
	const struct part router = {"mlp.gate", n, d, &l->router};
	const struct part bias = {"mlp.gate.e_score_correction_bias", n, 0,
				  &l->router_bias};
	enum status st = load_parts(g, i, &router, 1, fail);
	if (st == OK && g->c->n_groups)
		st = load_parts(g, i, &bias, 1, fail);
	for (int32_t e = 0; e < n && st == OK; e++) {
		char names[3][80];
		static const char *const kinds[] = {"gate", "up", "down"};
		for (int j = 0; j < 3; j++)
			snprintf(names[j], sizeof names[j], "mlp.experts.%d.%s_proj", e,
				 kinds[j]);
		const struct part parts[] = {
			{names[0], f, d, &w[e]},
			{names[1], f, d, &w[n + e]},
			{names[2], d, f, &w[2 * n + e]},
		};
		st = load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	}
	if (st != OK)
		return st;
	l->experts = (struct experts){.n = n, .gate = w, .up = w + n, .down = w + 2 * n};
	return g->b->ops->load_experts(g->b, &l->experts, fail);
}

static bool has_experts(const struct model_config *c, int i_layer)
{
	if (c->n_experts == 0 || (i_layer + 1) % c->sparse_step != 0)
		return false;
	for (int32_t i = 0; i < c->n_dense_layers; i++)
		if (c->dense_layers[i] == i_layer)
			return false;
	return true;
}

static enum status load_all(struct qwen3 *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	char embed[64], head[64], norm[64];
	snprintf(embed, sizeof embed, "%smodel.embed_tokens", c->prefix);
	snprintf(head, sizeof head, "%slm_head", c->prefix);
	snprintf(norm, sizeof norm, "%smodel.norm.weight", c->prefix);
	enum status st = load(g, embed, c->n_vocab, c->d_model, &g->embed, fail);
	g->head = g->embed;
	if (st == OK && !c->tied_embeddings)
		st = load(g, head, c->n_vocab, c->d_model, &g->head, fail);
	if (st == OK)
		st = load_vector(g, norm, c->d_model, &g->out_norm, fail);
	for (int i = 0; i < c->n_layers && st == OK; i++) {
		struct layer *l = &g->layers[i];
		l->has_experts = has_experts(c, i);
		l->window = c->is_windowed && c->is_windowed[i] ? c->window : 0;
		st = load_attention(g, i, l, fail);
		if (st == OK && l->has_experts)
			st = load_experts(g, i, l, fail);
		if (st == OK && dense_dim(c, l))
			st = load_dense(g, i, l, fail);
	}
	return st;
}

/* --- memory ----------------------------------------------------------------- */

static size_t page_bytes(const struct qwen3 *g)
{
	return (size_t)g->limits.page_size * (size_t)g->c->n_kv_heads *
	       (size_t)g->c->head_dim * dtype_bytes(g->b->kv_type);
}

static size_t ids_count(const struct qwen3 *g)
{
	size_t t = (size_t)g->limits.max_batch_tok, b = (size_t)g->limits.max_seqs;
	size_t size = (size_t)g->limits.page_size;
	return 5 * t + (b + 1) + b * (((size_t)g->limits.n_ctx + size - 1) / size);
}

static enum status take_scratch(struct qwen3 *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t d = (size_t)c->d_model, half = (size_t)c->n_rot / 2;
	size_t nq = (size_t)c->n_heads * (size_t)c->head_dim;
	size_t nkv = (size_t)c->n_kv_heads * (size_t)c->head_dim;
	size_t e = (size_t)c->n_experts, u = (size_t)c->n_experts_used;
	size_t f = 0, rows = MIN(t, ARCH_LOGIT_ROWS);
	for (int i = 0; i < c->n_layers; i++)
		f = MAX(f, (size_t)dense_dim(c, &g->layers[i]));
	const struct {
		void *out;
		size_t n_bytes;
	} wanted[] = {
		{&g->ids, ids_count(g) * sizeof *g->ids},
		{&g->inv_freq, half * sizeof *g->inv_freq},
		{&g->rope, t * half * 2 * sizeof *g->rope},
		{&g->x, t * d * sizeof *g->x},
		{&g->n, t * d * act},
		{&g->q, t * nq * act},
		{&g->k, t * nkv * act},
		{&g->v, t * nkv * act},
		{&g->attn, t * nq * act},
		{&g->gate, t * f * act},
		{&g->up, t * f * act},
		{&g->router_logits, t * e * sizeof *g->router_logits},
		{&g->expert_weight, t * u * sizeof *g->expert_weight},
		{&g->expert_id, t * u * sizeof *g->expert_id},
		{&g->expert_work, moe_experts_work((int32_t)t, (int32_t)u, (int32_t)e) *
					  sizeof *g->expert_work},
		{&g->expert_h, t * u * (size_t)c->expert_dim * act},
		{&g->rows, rows * d * sizeof *g->rows},
		{&g->rows_n, rows * d * act},
		{&g->logits, rows * (size_t)c->n_vocab * sizeof *g->logits},
	};
	enum status st = OK;
	for (size_t i = 0; i < ARRAY_LEN(wanted) && st == OK; i++)
		st = take(g, wanted[i].n_bytes, wanted[i].out, fail);
	for (int i = 0; i < c->n_layers && st == OK; i++) {
		size_t n = page_bytes(g) * (size_t)g->limits.n_pages;
		st = take(g, n, &g->layers[i].k_pages, fail);
		if (st == OK)
			st = take(g, n, &g->layers[i].v_pages, fail);
	}
	return st;
}

static enum status upload_frequencies(struct qwen3 *g)
{
	int n = g->c->n_rot / 2;
	double *freq = xmalloc((size_t)n * sizeof *freq);
	double factor = rope_frequencies(&g->c->rope, n, freq);
	/* What cos and sin are to be multiplied by, on both sides of q . k. */
	g->scale = (float)(factor * factor / sqrt(g->c->head_dim));
	enum status st = g->b->ops->upload(g->b, g->inv_freq, freq,
					   (size_t)n * sizeof *freq);
	free(freq);
	return st;
}

/* --- a step ----------------------------------------------------------------- */

/* Queue an operation of graph g, or return from the caller with its failure. */
#define RUN(op, ...) do { \
	enum status st_ = g->b->ops->op(g->b, &(struct op##_args){__VA_ARGS__}); \
	if (st_ != OK) \
		return fail_set(fail, st_, "%s: " #op " of %d tokens failed: %s", \
				g->b->device, t, backend_why(g->b, st_)); \
} while (0)

/* Append n ids to the block; returns where they will be on the device. */
static const int32_t *put(struct qwen3 *g, size_t *at, const int32_t *p, size_t n)
{
	memcpy(g->ids_host + *at, p, n * sizeof *p);
	*at += n;
	return g->ids + (*at - n);
}

static enum status upload_ids(struct qwen3 *g, const struct engine_batch *b,
			      struct step_ids *out)
{
	size_t at = 0, t = (size_t)b->n_tok, n_seq = (size_t)b->n_seq;
	out->token = put(g, &at, b->token, t);
	out->position = put(g, &at, b->position, t);
	out->seq_of = put(g, &at, b->seq_of, t);
	out->slot = put(g, &at, b->slot, t);
	out->first_tok = put(g, &at, b->first_tok, n_seq + 1);
	out->page_table = put(g, &at, b->page_table,
			      n_seq * (size_t)b->max_pages_per_seq);
	out->logit_rows = put(g, &at, b->logit_rows, (size_t)b->n_logit_rows);
	return g->b->ops->upload(g->b, g->ids, g->ids_host, at * sizeof *g->ids);
}

static enum status run_attention(struct qwen3 *g, const struct layer *l,
				 const struct engine_batch *b,
				 const struct step_ids *ids, struct fail *fail)
{
	const struct model_config *c = g->c;
	int32_t t = b->n_tok;
	struct kv_pages kv = {l->k_pages, l->v_pages, g->b->kv_type,
			      g->limits.page_size};
	RUN(rms_norm, .n_tok = t, .dim = c->d_model, .eps = c->norm_eps, .x = g->x,
	    .weight = l->attn_norm, .y = g->n);
	RUN(linear, .n_tok = t, .x = g->n, .n_out = 3,
	    .out = {{.w = &l->q, .bias = l->q_bias, .y = g->q},
		    {.w = &l->k, .bias = l->k_bias, .y = g->k},
		    {.w = &l->v, .bias = l->v_bias, .y = g->v}});
	RUN(qk_norm_rope_kv, .n_tok = t, .n_heads = c->n_heads,
	    .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim,
	    .n_freq = c->n_rot / 2, .eps = c->norm_eps,
	    .q = g->q, .k = g->k, .v = g->v, .q_norm = l->q_norm, .k_norm = l->k_norm,
	    .rope = g->rope, .slot = ids->slot, .kv = kv);
	RUN(attention, .n_tok = t, .n_seq = b->n_seq, .n_heads = c->n_heads,
	    .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim,
	    .max_pages_per_seq = b->max_pages_per_seq, .n_ctx_max = ids->n_ctx_max,
	    .window = l->window, .scale = g->scale, .q = g->q, .kv = kv,
	    .seq_of = ids->seq_of, .position = ids->position,
	    .first_tok = ids->first_tok, .page_table = ids->page_table, .y = g->attn);
	RUN(linear, .n_tok = t, .x = g->attn, .n_out = 1,
	    .out = {{.w = &l->o, .bias = l->o_bias, .y = g->x, .adds = true}});
	return OK;
}

static enum status run_ffn(struct qwen3 *g, const struct layer *l, int32_t t,
			   struct fail *fail)
{
	const struct model_config *c = g->c;
	RUN(rms_norm, .n_tok = t, .dim = c->d_model, .eps = c->norm_eps, .x = g->x,
	    .weight = l->ffn_norm, .y = g->n);
	if (l->has_experts) {
		RUN(moe_router, .n_tok = t, .n_used = c->n_experts_used,
		    .norm_topk = c->norm_topk, .x = g->n, .router = &l->router,
		    .logits = g->router_logits, .id = g->expert_id,
		    .weight = g->expert_weight, .is_sigmoid = c->n_groups > 0,
		    .n_groups = c->n_groups, .n_groups_used = c->n_groups_used,
		    .scale = c->routed_scale, .bias = l->router_bias);
		RUN(moe_experts, .n_tok = t, .n_used = c->n_experts_used, .x = g->n,
		    .id = g->expert_id, .weight = g->expert_weight,
		    .experts = &l->experts, .h = g->expert_h, .work = g->expert_work,
		    .y = g->x);
	}
	if (dense_dim(c, l)) {
		RUN(linear, .n_tok = t, .x = g->n, .n_out = 2,
		    .out = {{.w = &l->gate, .y = g->gate}, {.w = &l->up, .y = g->up}});
		RUN(silu_mul, .n_tok = t, .dim = dense_dim(c, l), .gate = g->gate,
		    .up = g->up, .y = g->gate);
		RUN(linear, .n_tok = t, .x = g->gate, .n_out = 1,
		    .out = {{.w = &l->down, .y = g->x, .adds = true}});
	}
	return OK;
}

/* Logits of rows [r, r + t) into g->logits. */
static enum status run_logits(struct qwen3 *g, const struct step_ids *ids, int32_t r,
			      int32_t t, struct fail *fail)
{
	RUN(gather_rows, .n_rows = t, .dim = g->c->d_model, .x = g->x,
	    .row = ids->logit_rows + r, .y = g->rows);
	RUN(rms_norm, .n_tok = t, .dim = g->c->d_model, .eps = g->c->norm_eps,
	    .x = g->rows, .weight = g->out_norm, .y = g->rows_n);
	RUN(linear, .n_tok = t, .x = g->rows_n, .n_out = 1,
	    .out = {{.w = &g->head, .y = g->logits, .is_f32 = true}});
	return OK;
}

/* All that a step queues up to its first piece of logits: what may be recorded. */
static enum status run_step(struct qwen3 *g, const struct engine_batch *b,
			    const struct step_ids *ids, struct fail *fail)
{
	int32_t t = b->n_tok;
	enum status st = OK;
	RUN(embed_rows, .n_tok = t, .table = &g->embed, .token = ids->token, .x = g->x);
	RUN(rope_table, .n_tok = t, .n_freq = g->c->n_rot / 2,
	    .position = ids->position, .inv_freq = g->inv_freq, .table = g->rope);
	for (int i = 0; i < g->c->n_layers && st == OK; i++) {
		st = run_attention(g, &g->layers[i], b, ids, fail);
		if (st == OK)
			st = run_ffn(g, &g->layers[i], t, fail);
	}
	if (st == OK && b->n_logit_rows)
		st = run_logits(g, ids, 0, MIN(ARCH_LOGIT_ROWS, b->n_logit_rows), fail);
	return st;
}

static enum status qwen3_forward(void *ctx, const struct engine_batch *b,
				 float *logits, struct fail *fail)
{
	struct qwen3 *g = ctx;
	struct step_ids ids;
	size_t n_vocab = (size_t)g->c->n_vocab;
	bool is_new;
	uint64_t key = arch_step_key(g->id, &g->limits, b, &ids.n_ctx_max);
	enum status st = upload_ids(g, b, &ids);
	if (st == OK)
		st = g->b->ops->step_begin(g->b, key, &is_new);
	if (st == OK && is_new)
		st = run_step(g, b, &ids, fail);
	enum status end = g->b->ops->step_end(g->b);
	st = st == OK ? end : st;
	for (int32_t r = 0, n; r < b->n_logit_rows && st == OK; r += n) {
		n = MIN(ARCH_LOGIT_ROWS, b->n_logit_rows - r);
		if (r > 0)
			st = run_logits(g, &ids, r, n, fail);
		if (st == OK)
			st = g->b->ops->download(g->b, logits + (size_t)r * n_vocab,
						 g->logits,
						 (size_t)n * n_vocab * sizeof *logits);
	}
	enum status synced = g->b->ops->sync(g->b, st == OK ? fail : NULL);
	return st == OK ? synced : st;
}

static enum status qwen3_copy_page(void *ctx, int32_t dst, int32_t src)
{
	struct qwen3 *g = ctx;
	for (int i = 0; i < g->c->n_layers; i++) {
		struct kv_copy_args a = {
			.n_kv_heads = g->c->n_kv_heads, .head_dim = g->c->head_dim,
			.dst = dst, .src = src,
			.kv = {g->layers[i].k_pages, g->layers[i].v_pages,
			       g->b->kv_type, g->limits.page_size}};
		enum status st = g->b->ops->kv_copy(g->b, &a);
		if (st != OK)
			return st;
	}
	return OK;
}

/* --- life --------------------------------------------------------------------- */

static void qwen3_destroy(void *ctx)
{
	struct qwen3 *g = ctx;
	for (size_t i = 0; i < g->n_blocks; i++)
		g->b->ops->free(g->b, g->blocks[i]);
	free(g->blocks);
	free(g->expert_weights);
	free(g->ids_host);
	free(g->layers);
	free(g);
}

static enum status qwen3_create(struct model *m, struct backend *b,
				const struct arch_limits *limits,
				struct engine_graph *out, struct fail *fail)
{
	struct qwen3 *g = xcalloc(1, sizeof *g);
	g->c = &m->config;
	g->m = m;
	g->b = b;
	g->limits = *limits;
	g->id = arch_graph_id();
	g->layers = xcalloc((size_t)g->c->n_layers, sizeof *g->layers);
	g->expert_weights = calloc((size_t)g->c->n_layers * 3 *
					   (size_t)g->c->n_experts + 1,
				   sizeof *g->expert_weights);
	g->ids_host = calloc(ids_count(g), sizeof *g->ids_host);
	enum status st = g->expert_weights && g->ids_host ? OK : E_NOMEM;
	if (st == OK)
		st = load_all(g, fail);
	if (st == OK)
		st = take_scratch(g, fail);
	if (st == OK)
		st = upload_frequencies(g);
	if (st == OK)
		st = b->ops->sync(b, fail);
	if (st != OK) {
		qwen3_destroy(g);
		return fail_default(fail, st);
	}
	*out = (struct engine_graph){
		.ctx = g, .n_vocab = g->c->n_vocab, .max_ctx = limits->n_ctx,
		.forward = qwen3_forward, .destroy = qwen3_destroy,
		.copy_page = qwen3_copy_page};
	return OK;
}

static size_t kv_token_bytes(const struct model *m, const struct backend *b)
{
	const struct model_config *c = &m->config;
	return 2 * (size_t)c->n_layers * (size_t)c->n_kv_heads *
	       (size_t)c->head_dim * dtype_bytes(b->kv_type);
}

const struct arch arch_qwen3 = {kv_token_bytes, qwen3_create};
