/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-head latent attention. The cache has of each token c (kv_lora elements, of which
 * kv_b makes keys and values of all heads) and a rotated key that the heads share:
 *
 *   q = W n, or Wqb norm(Wqa n);  c, k_rope = Wkva n
 *   score of head h = q_nope . (Wk_h c) + q_rope . k_rope
 *                   = (Wk_h^T q_nope) . c + q_rope . k_rope
 *   y_h = sum p (Wv_h c) = Wv_h (sum p c)
 *
 * So nothing of the size of the heads' keys and values is ever made: attention has one
 * key of kv_lora + rope_dim a token, and its value is the key's first part. Source:
 * DeepSeek-V2, 2024, section 2.1 and appendix B; modeling_deepseek_v3.py of Hugging
 * Face Transformers. With an indexer (DeepSeek-V3.2) it sees what that chooses
 * (indexer.c). Ling 3 multiplies y_h by sigmoid(Wg n)_h.
 */
#include "engine/parts/mla.h"

#include "base/alloc.h"
#include "engine/graph_calls.h"

static int32_t head_dim_of(const struct mla *a)
{
	return a->nope_dim + a->rope_dim;
}

/* --- weights and memory -------------------------------------------------------------- */

/* GGUF has each head's rows for keys and for values apart, and those for keys transposed. */
static enum status load_kv_b(struct graph *g, int i, struct mla *a, struct fail *fail)
{
	const struct graph_part whole = {"self_attn.kv_b_proj", GRAPH_ROWS, a->n_heads *
					 (a->nope_dim + a->v_dim), a->kv_lora, &a->kv_b};
	const struct graph_part split[] = {
		{"self_attn.k_b_proj", GRAPH_ROWS, a->n_heads * a->kv_lora, a->nope_dim,
		 &a->k_b},
		{"self_attn.v_b_proj", GRAPH_ROWS, a->n_heads * a->v_dim, a->kv_lora,
		 &a->v_b},
	};
	a->is_split = graph_layer_has(g, i, split[0].name);
	return graph_load_parts(g, i, a->is_split ? split : &whole, a->is_split ? 2 : 1,
				fail);
}

enum status mla_load(struct graph *g, int i, struct fail *fail)
{
	struct mla *a = &g->layers[i].mla;
	int32_t d = g->dim, nq = a->n_heads * head_dim_of(a);
	const struct graph_part parts[] = {
		{"self_attn.kv_a_proj_with_mqa", GRAPH_WEIGHT, a->kv_lora + a->rope_dim, d,
		 &a->kv_a},
		{"self_attn.kv_a_layernorm.weight", GRAPH_NORM, a->kv_lora, 0,
		 &a->kv_a_norm},
		{"self_attn.o_proj", GRAPH_WEIGHT, d, a->n_heads * a->v_dim, &a->o},
	};
	const struct graph_part low[] = {
		{"self_attn.q_a_proj", GRAPH_WEIGHT, a->q_lora, d, &a->q_a},
		{"self_attn.q_a_layernorm.weight", GRAPH_NORM, a->q_lora, 0, &a->q_a_norm},
		{"self_attn.q_b_proj", GRAPH_WEIGHT, nq, a->q_lora, &a->q_b},
	};
	const struct graph_part whole = {"self_attn.q_proj", GRAPH_WEIGHT, nq, d, &a->q};
	const struct graph_part gate = {"self_attn.g_proj", GRAPH_WEIGHT, a->n_heads, d, &a->gate};
	enum status st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	if (st == OK)
		st = load_kv_b(g, i, a, fail);
	if (st == OK && a->has_gate)
		st = graph_load_parts(g, i, &gate, 1, fail);
	return st == OK ? graph_load_parts(g, i, a->q_lora ? low : &whole,
					   a->q_lora ? ARRAY_LEN(low) : 1, fail) : st;
}

/* The first layer with latent attention, or the first layer. All are alike. */
static const struct mla *first_of(const struct graph *g)
{
	int i = 0;
	while (i + 1 < g->n_layers && !g->layers[i].mla.n_heads)
		i++;
	return &g->layers[i].mla;
}

enum status mla_alloc(struct graph *g, struct fail *fail)
{
	const struct mla *a = first_of(g);
	struct mla_scratch *r = &g->mla;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t h = t * (size_t)a->n_heads, wide = (size_t)(a->kv_lora + a->rope_dim);
	const struct graph_want wanted[] = {
		{&r->q_a, t * (size_t)a->q_lora * sizeof *r->q_a + 1},
		{&r->q_a_n, t * (size_t)a->q_lora * act + 1},
		{&r->q, h * (size_t)head_dim_of(a) * act},
		{&r->q_wide, h * wide * act},
		{&r->kv, t * wide * act},
		{&r->gate, a->has_gate ? h * act : 1},
		{&r->y_wide, h * (size_t)a->kv_lora * act},
		{&r->y, h * (size_t)a->v_dim * act},
	};
	if (a->n_heads == 0)
		return OK;
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	const struct graph_pages_want pages = {.n_k = (int32_t)wide, .n_heads = 1};
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++)
		if (g->layers[i].mla.n_heads)
			st = graph_take_pages(g, &g->layers[i], &pages, fail);
	return st;
}

/* --- a step ------------------------------------------------------------------------ */

/* Scales queries up at late positions: q (T, H * K). */
static enum status warm_queries(struct graph *g, const struct mla *a, const struct graph_step *s,
				struct fail *fail)
{
	int32_t t = s->b->n_tok;
	if (a->has_attn_temp)
		RUN(scale_rows, .n_tok = t, .dim = a->n_heads * head_dim_of(a),
		    .scale = s->ids.q_scale, .x = g->mla.q, .y = g->mla.q);
	return OK;
}

enum status mla_project(struct graph *g, const struct layer *l, const struct graph_step *s,
			const struct mla_project *x, struct fail *fail)
{
	const struct mla *a = &l->mla;
	const struct mla_scratch *r = &g->mla;
	int32_t t = s->b->n_tok;
	int32_t n_out = a->has_gate ? 3 : 2;
	struct linear_out kv = {.w = &a->kv_a, .y = r->kv}, gate = {.w = &a->gate, .y = r->gate};
	if (!a->q_lora) {
		LINEAR(.norm = x->norm, .n_tok = t, .x = g->n, .n_out = n_out,
		       .out = {{.w = &a->q, .y = r->q}, kv, gate});
		return warm_queries(g, a, s, fail);
	}
	LINEAR(.norm = x->norm, .n_tok = t, .x = g->n, .n_out = n_out,
	       .out = {{.w = &a->q_a, .y = r->q_a, .is_f32 = true}, kv, gate});
	RUN(rms_norm, .n_tok = t, .dim = a->q_lora, .eps = a->eps, .x = r->q_a,
	    .weight = a->q_a_norm, .y = r->q_a_n);
	LINEAR(.n_tok = t, .x = r->q_a_n, .n_out = 1, .out = {{.w = &a->q_b, .y = r->q}});
	return warm_queries(g, a, s, fail);
}

static void tell_bytes(const struct graph *g, const struct mla *a)
{
	const struct weight *keys = a->is_split ? &a->k_b : &a->kv_b;
	profile_bytes(g->b->profile, PROFILE_QKV, (double)weight_bytes(keys));
	profile_bytes(g->b->profile, PROFILE_OUT,
		      a->is_split ? (double)weight_bytes(&a->v_b) : 0);
}

enum status mla_see(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct mla_see *x, struct fail *fail)
{
	const struct mla *a = &l->mla;
	const struct mla_scratch *r = &g->mla;
	int32_t t = s->b->n_tok, wide = a->kv_lora + a->rope_dim, dim = head_dim_of(a);
	int32_t pitch = a->nope_dim + a->v_dim;
	bool is_split = a->is_split;
	struct kv_pages kv = graph_pages(g, l);
	RUN(mla_rope_kv, .n_tok = t, .n_heads = a->n_heads, .c_dim = a->kv_lora,
	    .rope_dim = a->rope_dim, .is_interleaved = a->is_interleaved,
	    .eps = a->eps, .q_scale = a->rope_scale, .q_from = r->q,
	    .q_pitch = dim, .q = r->q_wide, .kv_from = r->kv,
	    .norm = a->kv_a_norm, .rope = g->rope[0], .slot = s->ids.slot, .kv = kv);
	RUN(head_linear, .n_tok = t, .n_heads = a->n_heads,
	    .w = is_split ? &a->k_b : &a->kv_b, .pitch = is_split ? a->kv_lora : pitch,
	    .first = 0, .n = is_split ? a->kv_lora : a->nope_dim, .is_transposed = !is_split,
	    .x = r->q, .x_pitch = dim, .y = r->q_wide, .y_pitch = wide);
	PART(graph_lora_heads, .target = &a->k_b, .n_heads = a->n_heads, .n_in = a->nope_dim,
	     .n_out = a->kv_lora, .is_transposed = true, .x = r->q, .x_pitch = dim, .y = r->q_wide,
	     .y_pitch = wide);
	if (g->b->profile && t > 0)
		tell_bytes(g, a);
	graph_enter_attention(g, s, 0, kv_pages_row_bytes(kv.type, wide));
	struct attention_args seen = {
		.n_tok = t, .n_seq = s->n_seq, .n_heads = a->n_heads, .n_kv_heads = 1,
		.head_dim = wide, .v_dim = a->kv_lora,
		.max_pages_per_seq = s->max_pages_per_seq, .n_ctx_max = s->n_ctx_max,
		.scale = a->scale, .q = r->q_wide, .kv = kv, .seq_of = s->ids.seq_of,
		.position = s->ids.position, .first_tok = s->ids.first_tok,
		.page_table = s->ids.page_table, .y = r->y_wide};
	enum status st = OK;
	if (x->index) {
		seen.kv.page_size = x->index->ratio;
		st = indexer_run(g, l, s, &seen, fail);
	}
	st = st == OK ? g->b->ops->attention(g->b, &seen) : st;
	if (st != OK)
		return graph_op_failed(g, "attention", t, st, fail);
	profile_enter(g->b->profile, PROFILE_OUT);
	RUN(head_linear, .n_tok = t, .n_heads = a->n_heads,
	    .w = is_split ? &a->v_b : &a->kv_b, .pitch = is_split ? a->v_dim : pitch,
	    .first = is_split ? 0 : a->nope_dim, .n = a->v_dim, .x = r->y_wide,
	    .x_pitch = a->kv_lora, .y = r->y, .y_pitch = a->v_dim);
	PART(graph_lora_heads, .target = &a->v_b, .n_heads = a->n_heads, .n_in = a->kv_lora,
	     .n_out = a->v_dim, .x = r->y_wide, .x_pitch = a->kv_lora, .y = r->y,
	     .y_pitch = a->v_dim);
	return OK;
}

enum status mla_gate(struct graph *g, const struct layer *l, const struct graph_step *s,
		     struct fail *fail)
{
	const struct mla *a = &l->mla;
	int32_t t = s->b->n_tok, n = a->n_heads;
	if (a->has_gate)
		RUN(sigmoid_gate, .n_tok = t, .dim = n * a->v_dim, .span = a->v_dim,
		    .y = g->mla.y, .gate = {g->mla.gate, n, 1, n, n});
	return OK;
}

enum status mla_out(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct mla_out *x, struct fail *fail)
{
	return graph_add(g, l, s, &(struct graph_add){
		.w = &l->mla.o, .in = g->mla.y, .next = x->next}, fail);
}
