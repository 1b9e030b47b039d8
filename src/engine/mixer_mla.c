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
 * (engine/indexer.c).
 */
#include <math.h>

#include "base/alloc.h"
#include "engine/graph.h"
#include "engine/rope.h"

/* GGUF has each head's rows for keys and for values apart, and those for keys transposed. */
static enum status load_kv_b(struct graph *g, int i, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct mla *a = &g->layers[i].mla;
	const struct graph_part whole = {"self_attn.kv_b_proj", GRAPH_ROWS, c->n_heads *
					 (c->nope_dim + c->v_dim), c->kv_lora, &a->kv_b};
	const struct graph_part split[] = {
		{"self_attn.k_b_proj", GRAPH_ROWS, c->n_heads * c->kv_lora, c->nope_dim,
		 &a->k_b},
		{"self_attn.v_b_proj", GRAPH_ROWS, c->n_heads * c->v_dim, c->kv_lora,
		 &a->v_b},
	};
	a->is_split = graph_layer_has(g, i, split[0].name);
	return graph_load_parts(g, i, a->is_split ? split : &whole, a->is_split ? 2 : 1,
				fail);
}

static enum status load(struct graph *g, int i, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct mla *a = &g->layers[i].mla;
	int32_t d = c->d_model, nq = c->n_heads * c->head_dim;
	const struct graph_part parts[] = {
		{"self_attn.kv_a_proj_with_mqa", GRAPH_WEIGHT, c->kv_lora + c->rope_dim, d,
		 &a->kv_a},
		{"self_attn.kv_a_layernorm.weight", GRAPH_NORM, c->kv_lora, 0,
		 &a->kv_a_norm},
		{"self_attn.o_proj", GRAPH_WEIGHT, d, c->n_heads * c->v_dim, &a->o},
	};
	const struct graph_part low[] = {
		{"self_attn.q_a_proj", GRAPH_WEIGHT, c->q_lora, d, &a->q_a},
		{"self_attn.q_a_layernorm.weight", GRAPH_NORM, c->q_lora, 0, &a->q_a_norm},
		{"self_attn.q_b_proj", GRAPH_WEIGHT, nq, c->q_lora, &a->q_b},
	};
	const struct graph_part whole = {"self_attn.q_proj", GRAPH_WEIGHT, nq, d, &a->q};
	enum status st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	if (st == OK)
		st = load_kv_b(g, i, fail);
	if (st == OK)
		st = graph_load_parts(g, i, c->q_lora ? low : &whole,
				      c->q_lora ? ARRAY_LEN(low) : 1, fail);
	return st == OK && c->index_heads ? indexer_load(g, i, fail) : st;
}

/* Two factors sharpen attention: rope's, for the rotated part alone, and that of
 * mscale_all_dim, for all. */
static void set_scales(struct graph *g)
{
	const struct rope *rope = &g->c->ropes[0];
	double factor = rope_sharpness(rope), all = 1;
	if (rope->kind == ROPE_YARN && rope->mscale_all != 0)
		all = rope_mscale(rope->factor, rope->mscale_all);
	g->mla.scale = (float)(all * all / sqrt(g->c->head_dim));
	g->mla.rope_scale = (float)(factor * factor);
}

static enum status alloc(struct graph *g, struct fail *fail)
{
	const struct model_config *c = g->c;
	struct mla_scratch *r = &g->mla;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t h = t * (size_t)c->n_heads, wide = (size_t)(c->kv_lora + c->rope_dim);
	const struct graph_want wanted[] = {
		{&r->q_a, t * (size_t)c->q_lora * sizeof *r->q_a + 1},
		{&r->q_a_n, t * (size_t)c->q_lora * act + 1},
		{&r->q, h * (size_t)c->head_dim * act},
		{&r->q_wide, h * wide * act},
		{&r->kv, t * wide * act},
		{&r->y_wide, h * (size_t)c->kv_lora * act},
		{&r->y, h * (size_t)c->v_dim * act},
	};
	set_scales(g);
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	for (int i = 0; i < graph_n_layers(g) && st == OK; i++)
		st = graph_take_pages(g, &g->layers[i], &(struct graph_pages_want){
			.n_k = (int32_t)wide, .n_heads = 1}, fail);
	return st == OK && c->index_heads ? indexer_alloc(g, fail) : st;
}

/* Makes r->q and r->kv from norm(x). */
static enum status project(struct graph *g, const struct layer *l, int32_t t,
			   struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mla *a = &l->mla;
	const struct mla_scratch *r = &g->mla;
	struct linear_out kv = {.w = &a->kv_a, .y = r->kv};
	const struct rms_norm_args norm = graph_norm(g, l, NORM_MIXER, t);
	if (!c->q_lora) {
		RUN(linear, .norm = &norm, .n_tok = t, .x = g->n, .n_out = 2,
		    .out = {{.w = &a->q, .y = r->q}, kv});
		return OK;
	}
	RUN(linear, .norm = &norm, .n_tok = t, .x = g->n, .n_out = 2,
	    .out = {{.w = &a->q_a, .y = r->q_a, .is_f32 = true}, kv});
	RUN(rms_norm, .n_tok = t, .dim = c->q_lora, .eps = c->lora_eps, .x = r->q_a,
	    .weight = a->q_a_norm, .y = r->q_a_n);
	RUN(linear, .n_tok = t, .x = r->q_a_n, .n_out = 1,
	    .out = {{.w = &a->q_b, .y = r->q}});
	return OK;
}

static enum status run(struct graph *g, const struct layer *l, const struct graph_step *s,
		       struct fail *fail)
{
	const struct model_config *c = g->c;
	const struct mla *a = &l->mla;
	const struct mla_scratch *r = &g->mla;
	int32_t t = s->b->n_tok, wide = c->kv_lora + c->rope_dim;
	int32_t pitch = c->nope_dim + c->v_dim;
	bool is_split = a->is_split;
	struct kv_pages kv = graph_pages(g, l);
	enum status st = project(g, l, t, fail);
	if (st != OK)
		return st;
	RUN(mla_rope_kv, .n_tok = t, .n_heads = c->n_heads, .c_dim = c->kv_lora,
	    .rope_dim = c->rope_dim, .is_interleaved = c->rope_interleaved,
	    .eps = c->lora_eps, .q_scale = r->rope_scale, .q_from = r->q,
	    .q_pitch = c->head_dim, .q = r->q_wide, .kv_from = r->kv,
	    .norm = a->kv_a_norm, .rope = g->rope[0], .slot = s->ids.slot, .kv = kv);
	RUN(head_linear, .n_tok = t, .n_heads = c->n_heads,
	    .w = is_split ? &a->k_b : &a->kv_b, .pitch = is_split ? c->kv_lora : pitch,
	    .first = 0, .n = is_split ? c->kv_lora : c->nope_dim, .is_transposed = !is_split,
	    .x = r->q, .x_pitch = c->head_dim, .y = r->q_wide, .y_pitch = wide);
	if (g->b->profile && t > 0) {
		const struct weight *kv_b = is_split ? &a->k_b : &a->kv_b;
		profile_bytes(g->b->profile, PROFILE_QKV, (double)weight_bytes(kv_b));
		profile_bytes(g->b->profile, PROFILE_OUT,
			      is_split ? (double)weight_bytes(&a->v_b) : 0);
	}
	graph_enter_attention(g, s, 0, kv_pages_row_bytes(kv.type, wide));
	struct attention_args seen = {
		.n_tok = t, .n_seq = s->n_seq, .n_heads = c->n_heads, .n_kv_heads = 1,
		.head_dim = wide, .v_dim = c->kv_lora,
		.max_pages_per_seq = s->max_pages_per_seq, .n_ctx_max = s->n_ctx_max,
		.scale = r->scale, .q = r->q_wide, .kv = kv, .seq_of = s->ids.seq_of,
		.position = s->ids.position, .first_tok = s->ids.first_tok,
		.page_table = s->ids.page_table, .y = r->y_wide};
	if (c->index_heads) {
		seen.kv.page_size = c->index_ratio;
		st = indexer_run(g, l, s, &seen, fail);
	}
	st = st == OK ? g->b->ops->attention(g->b, &seen) : st;
	if (st != OK)
		return graph_op_failed(g, "attention", t, st, fail);
	profile_enter(g->b->profile, PROFILE_OUT);
	RUN(head_linear, .n_tok = t, .n_heads = c->n_heads,
	    .w = is_split ? &a->v_b : &a->kv_b, .pitch = is_split ? c->v_dim : pitch,
	    .first = is_split ? 0 : c->nope_dim, .n = c->v_dim, .x = r->y_wide,
	    .x_pitch = c->kv_lora, .y = r->y, .y_pitch = c->v_dim);
	return graph_add(g, l, t, &(struct graph_add){&a->o, NULL, r->y, NORM_MIXER_POST, 0},
			 fail);
}

const struct mixer mixer_mla = {load, alloc, run, NULL};
