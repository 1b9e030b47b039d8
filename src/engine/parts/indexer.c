/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention to what an indexer chooses (kernels/ops/index.h has the formulas):
 *
 *   q, k = W n;  each head of q is normalised and rotated;  k to the indexer's pages
 *   (in GGUF, W is two matrices)
 *   the best blocks of positions, by q and the keys of blocks
 *
 * A block of index_ratio positions is a page of the layer's cache. So attention to the chosen
 * blocks is attention of a sequence of its own for each token: the chosen blocks are its page
 * table. Keys are rotated already, so it does not matter that positions are missing. The
 * slots and bytes of a page are the same in pages of either size.
 *
 * With MLA (DeepSeek-V3.2) a block is one position:
 *
 *   q = Wq norm(Wqa n), whose first elements are rotated;  w = Ww n, a weight a head
 *   k = layer norm of Wk n, rotated alike
 *
 * or (GLM-5.3) nothing is rotated, and a block is a pool of positions, whose key is
 *
 *   sum_j p[j] k[j],  p = softmax_j(Wg n[j] + place[j])     (kernels/ops/compress.h)
 */
#include "engine/parts/indexer.h"

#include "base/alloc.h"
#include "engine/graph_calls.h"

enum { TOGETHER = 64 }; /* most tokens at once: scores have room for so many */

static int32_t top_of(const struct indexer *x)
{
	return x->budget / x->ratio;
}

static enum status load_of_mla(struct graph *g, int i, struct fail *fail)
{
	struct indexer *x = &g->layers[i].indexer;
	int32_t dim = x->dim;
	const struct graph_part parts[] = {
		{"self_attn.indexer.wq_b", GRAPH_WEIGHT, x->n_heads * dim, x->q_lora, &x->q},
		{"self_attn.indexer.wk", GRAPH_WEIGHT, dim, g->dim, &x->k},
		{"self_attn.indexer.weights_proj", GRAPH_WEIGHT, x->n_heads, g->dim,
		 &x->weights},
		{"self_attn.indexer.k_norm.weight", GRAPH_NORM, dim, 0, &x->k_norm},
		{"self_attn.indexer.k_norm.bias", GRAPH_VECTOR, dim, 0, &x->k_bias},
	};
	const struct graph_part pooled[] = {
		{"self_attn.indexer.compress_gate", GRAPH_WEIGHT, dim, g->dim, &x->gate},
		{"self_attn.indexer.index_kpool_compress_ape", GRAPH_MATRIX, x->ratio, dim,
		 &x->place},
	};
	TRY(graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail));
	return x->is_pooled ? graph_load_parts(g, i, pooled, ARRAY_LEN(pooled), fail) : OK;
}

enum status indexer_load(struct graph *g, int i, struct fail *fail)
{
	struct indexer *x = &g->layers[i].indexer;
	int32_t dim = x->dim;
	if (g->limits.page_size % x->ratio)
		return fail_at(fail, E_CONFIG, "page_size", "KV pages of %d tokens: this model "
			       "needs a multiple of %d", g->limits.page_size, x->ratio);
	if (x->q_lora)
		return load_of_mla(g, i, fail);
	const struct graph_part parts[] = {
		{"self_attn.indexer.q_layernorm.weight", GRAPH_NORM, dim, 0, &x->q_norm},
		{"self_attn.indexer.k_layernorm.weight", GRAPH_NORM, dim, 0, &x->k_norm},
	}, together[] = {
		{"self_attn.indexer.index_qk_proj", GRAPH_WEIGHT, (x->n_heads + 1) * dim,
		 g->dim, &x->qk},
	}, apart[] = {
		{"self_attn.indexer.q_proj", GRAPH_WEIGHT, x->n_heads * dim, g->dim,
		 &x->q},
		{"self_attn.indexer.k_proj", GRAPH_WEIGHT, dim, g->dim, &x->k},
	};
	x->is_apart = graph_layer_has(g, i, "self_attn.indexer.q_proj");
	enum status st = x->is_apart ? graph_load_parts(g, i, apart, ARRAY_LEN(apart), fail)
				     : graph_load_parts(g, i, together, 1, fail);
	return st == OK ? graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail) : st;
}

/* The first layer with an indexer; NULL: there is none. All are alike. */
static const struct indexer *first_of(const struct graph *g)
{
	for (int i = 0; i < graph_n_layers(g); i++)
		if (g->layers[i].indexer.n_heads)
			return &g->layers[i].indexer;
	return NULL;
}

enum status indexer_alloc(struct graph *g, struct fail *fail)
{
	const struct indexer *of = first_of(g);
	struct indexer_scratch *r = &g->indexer;
	if (!of)
		return OK;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t dim = (size_t)of->dim, kv = dtype_bytes(g->b->kv_type);
	size_t n_qk = t * (size_t)(of->n_heads + 1) * dim;
	size_t n_blocks = (size_t)(g->limits.n_ctx / of->ratio + 1);
	size_t t_mla = of->q_lora ? t : 0, t_pool = of->is_pooled ? t : 0;
	const struct graph_want wanted[] = {
		{&r->qk, n_qk * act},
		{&r->rotated, n_qk * act},
		{&r->rope, t * (size_t)(2 * of->n_freq) * sizeof *r->rope},
		{&r->scores, TOGETHER * n_blocks * sizeof *r->scores},
		{&r->table, t * (size_t)(top_of(of) + 1) * sizeof *r->table},
		{&r->last, t * sizeof *r->last},
		{&r->key, t * dim * act},
		{&r->weight, t_mla * (size_t)of->n_heads * sizeof *r->weight + 1},
		{&r->wide_key, t_pool * dim * sizeof *r->wide_key + 1},
		{&r->gate, t_pool * dim * act + 1},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK)
		st = graph_put_count(g, t + 1, &r->each, fail);
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++) {
		struct indexer *x = &g->layers[i].indexer;
		size_t n = (size_t)g->limits.n_pages;
		x->key_bytes = (size_t)g->limits.page_size * dim * kv;
		x->block_bytes = x->key_bytes / (size_t)of->ratio;
		const struct graph_want pages[] = {{&x->blocks, n * x->block_bytes},
						   {&x->keys, n * x->key_bytes},
						   {&x->gates, n * x->key_bytes}};
		if (x->n_heads)
			st = graph_take_all(g, pages, of->is_pooled ? 3 : of->ratio > 1 ? 2 : 1,
					    fail);
	}
	return st;
}

enum status indexer_begin(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	const struct indexer *of = first_of(g);
	int32_t t = s->b->n_tok;
	/* Each position begins a block, or nothing rotates. */
	if (!of || of->ratio == 1 || of->is_pooled)
		return OK;
	RUN(rope_table, .n_tok = t, .n_freq = of->n_freq, .position = s->ids.block_start,
	    .axis = g->images.rope_axis, .inv_freq = g->inv_freq[0], .table = g->indexer.rope,
	    .scale = g->rope_factor[0]);
	return OK;
}

/* `prepare` for MLA: q_a_n is the one that the layer's attention reads too. */
static enum status prepare_of_mla(struct graph *g, const struct layer *l,
				  const struct graph_step *s, struct fail *fail)
{
	const struct indexer *x = &l->indexer;
	const struct indexer_scratch *r = &g->indexer;
	int32_t t = s->b->n_tok, dim = x->dim;
	LINEAR(.n_tok = t, .x = g->mla.q_a_n, .n_out = 1, .out = {{.w = &x->q, .y = r->qk}});
	LINEAR(.n_tok = t, .x = g->n, .n_out = 2,
	       .out = {{.w = &x->k, .y = r->key},
		       {.w = &x->weights, .y = r->weight, .is_f32 = true}});
	RUN(index_keys, .n_tok = t, .dim = dim, .ratio = 1, .row = dim, .n_freq = x->n_freq,
	    .eps = x->eps, .key = r->key, .norm = x->k_norm, .bias = x->k_bias,
	    .rope = g->rope[0], .slot = s->ids.slot, .type = g->b->kv_type,
	    .page_size = g->limits.page_size, .blocks = x->blocks);
	RUN(qk_norm_rope_kv, .n_tok = t, .n_heads = x->n_heads, .head_dim = dim,
	    .n_freq = x->n_freq, .q = r->rotated, .rope = g->rope[0], .slot = s->ids.slot,
	    .q_from = r->qk, .q_pitch = dim, .kv.type = g->b->kv_type);
	return OK;
}

/* `prepare` for MLA with pools. */
static enum status prepare_pools(struct graph *g, const struct layer *l,
				 const struct graph_step *s, struct fail *fail)
{
	const struct indexer *x = &l->indexer;
	const struct indexer_scratch *r = &g->indexer;
	int32_t t = s->b->n_tok, each = g->limits.page_size / x->ratio;
	LINEAR(.n_tok = t, .x = g->mla.q_a_n, .n_out = 1, .out = {{.w = &x->q, .y = r->rotated}});
	LINEAR(.n_tok = t, .x = g->n, .n_out = 3,
	       .out = {{.w = &x->k, .y = r->wide_key, .is_f32 = true},
		       {.w = &x->gate, .y = r->gate},
		       {.w = &x->weights, .y = r->weight, .is_f32 = true}});
	RUN(layer_norm, .n_tok = t, .dim = x->dim, .eps = x->eps, .x = r->wide_key,
	    .weight = x->k_norm, .bias = x->k_bias, .y = r->key);
	RUN(compress, .n_tok = t, .dim = x->dim, .ratio = x->ratio, .n_series = 1,
	    .value = r->key, .gate = r->gate, .bias = x->place, .slot = s->ids.slot,
	    .seq_of = s->ids.seq_of, .position = s->ids.position,
	    .page_table = s->ids.page_table, .max_pages_per_seq = s->max_pages_per_seq,
	    .values = x->keys, .gates = x->gates,
	    .to = {.rows = x->blocks, .type = g->b->kv_type, .page_size = g->limits.page_size,
		   .page_rows = each, .n_rows = each});
	return OK;
}

/* Puts keys of the step's tokens into their pages, and makes rotated queries. */
static enum status prepare_keys(struct graph *g, const struct layer *l, const struct graph_step *s,
				struct fail *fail)
{
	const struct indexer *x = &l->indexer;
	const struct indexer_scratch *r = &g->indexer;
	int32_t t = s->b->n_tok, dim = x->dim, n = x->n_heads + !x->is_apart;
	const char *key = x->is_apart ? (const char *)r->key
				      : (const char *)r->qk + (size_t)(x->n_heads * dim) *
							dtype_bytes(g->b->act_type);
	if (x->is_apart)
		RUN(linear, .n_tok = t, .x = g->n, .n_out = 2,
		    .out = {{.w = &x->q, .y = r->qk}, {.w = &x->k, .y = r->key}});
	else
		RUN(linear, .n_tok = t, .x = g->n, .n_out = 1,
		    .out = {{.w = &x->qk, .y = r->qk}});
	RUN(index_keys, .n_tok = t, .dim = dim, .ratio = x->ratio,
	    .row = x->is_apart ? dim : n * dim,
	    .n_freq = x->n_freq, .eps = x->eps, .key = key, .norm = x->k_norm,
	    .rope = r->rope, .slot = s->ids.slot, .type = g->b->kv_type,
	    .page_size = g->limits.page_size, .keys = x->keys, .blocks = x->blocks);
	/* If the key lies beside the heads of q, it is rotated with them, and nobody reads
	 * the result. */
	RUN(qk_norm_rope_kv, .n_tok = t, .n_heads = n, .head_dim = dim, .n_freq = x->n_freq,
	    .eps = x->eps, .q = r->rotated, .q_norm = x->q_norm, .rope = g->rope[0],
	    .slot = s->ids.slot, .q_from = r->qk, .q_pitch = dim,
	    .kv.type = g->b->kv_type);
	return OK;
}

/* True for a step of one sequence whose tokens all see all of it. A page table of the last token
 * then serves all, and attention reads it for many tokens at once. */
static bool sees_all(const struct indexer *x, const struct graph_step *s)
{
	return s->n_seq == 1 && s->n_ctx_max <= x->budget;
}

/* Writes what each token sees to the scratch's table and last; if all see all, what the last token
 * sees. */
static enum status choose(struct graph *g, const struct layer *l, const struct graph_step *s,
			  struct fail *fail)
{
	const struct indexer *x = &l->indexer;
	const struct indexer_scratch *r = &g->indexer;
	int32_t n_tok = s->b->n_tok, top = top_of(x), t = sees_all(x, s) ? n_tok - 1 : 0;
	bool has_key = !x->q_lora && !x->is_apart;
	int32_t n = (x->n_heads + has_key) * x->dim;
	TRY((x->is_pooled ? prepare_pools : x->q_lora ? prepare_of_mla : prepare_keys)(
		g, l, s, fail));
	do {
		size_t at = (size_t)t;
		RUN(index_choose, .n_tok = MIN(TOGETHER, n_tok - t), .n_heads = x->n_heads,
		    .dim = x->dim, .ratio = x->ratio, .row = n, .top = top,
		    .max_pages_per_seq = s->max_pages_per_seq, .n_ctx_max = s->n_ctx_max,
		    .q = (const char *)r->rotated + at * (size_t)n * dtype_bytes(g->b->act_type),
		    .weight = x->q_lora ? r->weight + at * (size_t)x->n_heads : NULL,
		    .type = g->b->kv_type, .page_size = g->limits.page_size,
		    .blocks = x->blocks, .seq_of = s->ids.seq_of + t,
		    .position = s->ids.position + t, .page_table = s->ids.page_table,
		    .work = r->scores, .table = r->table + at * (size_t)(top + 1),
		    .last = r->last + t);
		t += TOGETHER;
	} while (t < n_tok);
	return OK;
}

enum status indexer_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			struct attention_args *a, struct fail *fail)
{
	const struct indexer *x = &l->indexer;
	const struct indexer_scratch *r = &g->indexer;
	if (x->n_heads)
		TRY(choose(g, l, s, fail));
	a->max_pages_per_seq = top_of(x) + 1;
	if (sees_all(x, s)) {
		a->page_table = r->table + (size_t)(s->b->n_tok - 1) * (size_t)(top_of(x) + 1);
		return OK;
	}
	a->n_seq = s->b->n_tok;
	a->n_ctx_max = MIN(s->n_ctx_max, x->budget + x->ratio - 1);
	a->seq_of = a->first_tok = r->each;
	a->position = r->last;
	a->page_table = r->table;
	return OK;
}

enum status indexer_copy_page(struct graph *g, const struct layer *l, int32_t dst, int32_t src)
{
	struct kv_copy_args a = {.n_kv_heads = 1, .head_dim = l->indexer.dim, .dst = dst,
				 .src = src, .kv = {.k = l->indexer.keys, .type = g->b->kv_type,
						    .page_size = g->limits.page_size}};
	enum status st = a.kv.k ? g->b->ops->kv_copy(g->b, &a) : OK;
	a.kv.k = l->indexer.gates;
	if (st == OK && a.kv.k)
		st = g->b->ops->kv_copy(g->b, &a);
	a.kv.k = l->indexer.blocks;
	a.kv.page_size = g->limits.page_size / l->indexer.ratio;
	return st == OK ? g->b->ops->kv_copy(g->b, &a) : st;
}
