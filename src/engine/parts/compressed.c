/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention to a window and to compressed keys, all of one head, which are values too
 * (kernels/ops/compress.h has the formulas):
 *
 *   q = Wqb norm(Wqa n), each head normalised;  kv = norm(Wkv n);  the ends of both rotated
 *   kv to the rows of tokens;  a compressor's values and gates of n to its pages, full blocks
 *   to their rows
 *   y = attention(q, rows of the window, rows of blocks), rotated back
 *   x += Wob (Woa of each group of heads of y)
 *
 * A layer has blocks of heavy_ratio positions, all of which are seen; or blocks of index_ratio,
 * which overlap, and of which an indexer chooses the best (kernels/ops/index.h); or none.
 *
 * All that a token leaves has its place in KV pages. So prefixes are shared as those of other
 * models are, and a sequence can go back to any position.
 */
#include "engine/parts/compressed.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"

enum { TOGETHER = 64 }; /* most tokens at once: scores have room for so many */

static bool is_chosen(const struct compressed *a)
{
	return a->ratio && a->ratio == a->index_ratio;
}

/* --- weights ----------------------------------------------------------------------- */

static enum status load_compressor(struct graph *g, int i, const char *name,
				   struct compressor *x, struct fail *fail)
{
	int32_t wide = x->n_series * x->dim;
	char names[4][80];
	static const char *const kinds[] = {"kv_proj", "gate_proj", "position_bias",
					    "kv_norm.weight"};
	for (int k = 0; k < 4; k++)
		snprintf(names[k], sizeof names[k], "self_attn.%s.%s", name, kinds[k]);
	const struct graph_part parts[] = {
		{names[0], GRAPH_WEIGHT, wide, g->dim, &x->value},
		{names[1], GRAPH_WEIGHT, wide, g->dim, &x->gate},
		{names[2], GRAPH_MATRIX, x->ratio, wide, &x->bias},
		{names[3], GRAPH_NORM, x->dim, 0, &x->norm},
	};
	return graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
}

static enum status load_indexer(struct graph *g, int i, struct compressed *a,
				struct fail *fail)
{
	const struct graph_part parts[] = {
		{"self_attn.compressor.indexer.q_b_proj", GRAPH_WEIGHT,
		 a->index_heads * a->index_dim, a->q_lora, &a->index_q},
		{"self_attn.compressor.indexer.scorer.weights_proj", GRAPH_WEIGHT,
		 a->index_heads, g->dim, &a->index_weights},
	};
	a->index = (struct compressor){.dim = a->index_dim, .ratio = a->ratio, .n_series = 2};
	enum status st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	return st == OK ? load_compressor(g, i, "compressor.indexer", &a->index, fail) : st;
}

/* A page must be whole blocks. A block that an indexer does not choose may be whole pages. */
static enum status check_pages(const struct graph *g, const struct compressed *a,
			       struct fail *fail)
{
	bool in_pages = is_chosen(a);
	int32_t ratio = a->ratio, size = g->limits.page_size;
	if (size % ratio == 0 || (!in_pages && ratio % size == 0))
		return OK;
	return fail_at(fail, E_CONFIG, "page_size", "KV pages of %d tokens: this model needs "
		       "a multiple of %d that divides %d, or is a multiple of it", size,
		       a->index_ratio, a->heavy_ratio);
}

enum status compressed_load(struct graph *g, int i, struct fail *fail)
{
	struct compressed *a = &g->layers[i].compressed;
	int32_t d = g->dim, nq = a->n_heads * a->head_dim;
	const struct graph_part parts[] = {
		{"self_attn.q_a_proj", GRAPH_WEIGHT, a->q_lora, d, &a->q_a},
		{"self_attn.q_a_norm.weight", GRAPH_NORM, a->q_lora, 0, &a->q_norm},
		{"self_attn.q_b_proj", GRAPH_WEIGHT, nq, a->q_lora, &a->q_b},
		{"self_attn.kv_proj", GRAPH_WEIGHT, a->head_dim, d, &a->kv},
		{"self_attn.kv_norm.weight", GRAPH_NORM, a->head_dim, 0, &a->kv_norm},
		{"self_attn.o_a_proj", GRAPH_ROWS, a->o_groups * a->o_lora, nq / a->o_groups,
		 &a->o_a},
		{"self_attn.o_b_proj", GRAPH_WEIGHT, d, a->o_groups * a->o_lora, &a->o_b},
		{"self_attn.sinks", GRAPH_VECTOR, a->n_heads, 0, &a->sinks},
	};
	enum status st = graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail);
	if (st != OK || a->ratio == 0)
		return st;
	bool has_index = is_chosen(a);
	a->own = (struct compressor){.dim = a->head_dim, .ratio = a->ratio,
				     .n_series = has_index ? 2 : 1};
	st = check_pages(g, a, fail);
	if (st == OK)
		st = load_compressor(g, i, "compressor", &a->own, fail);
	return st == OK && has_index ? load_indexer(g, i, a, fail) : st;
}

/* --- memory ------------------------------------------------------------------------ */

/* Rows that a page has for blocks of `ratio` positions. */
static int32_t rows_of(const struct graph *g, int32_t ratio)
{
	return ratio ? MAX(1, g->limits.page_size / ratio) : 0;
}

int compressed_pages(const struct layer *l, struct page_array out[COMPRESSED_PAGES])
{
	const struct compressed *a = &l->compressed;
	const struct page_array all[COMPRESSED_PAGES] = {
		{l->k_pages, l->k_bytes}, {a->own.values, a->own.page_bytes},
		{a->own.gates, a->own.page_bytes}, {a->index.values, a->index.page_bytes},
		{a->index.gates, a->index.page_bytes}, {a->index_rows, a->index_bytes}};
	memcpy(out, all, sizeof all);
	return COMPRESSED_PAGES;
}

enum status compressed_copy_page(struct graph *g, const struct layer *l, int32_t dst, int32_t src)
{
	struct page_array all[COMPRESSED_PAGES];
	int n = compressed_pages(l, all);
	enum dtype type = g->limits.kv_type;
	enum status st = OK;
	for (int i = 0; i < n && st == OK; i++)
		if (all[i].p)
			st = g->b->ops->kv_copy(g->b, &(struct kv_copy_args){
				.n_kv_heads = 1, .dst = dst, .src = src,
				.head_dim = (int32_t)(all[i].bytes / dtype_bytes(type)),
				.kv = {.k = all[i].p, .type = type, .page_size = 1}});
	return st;
}

static enum status take_inputs(struct graph *g, struct compressor *x, struct fail *fail)
{
	size_t n = (size_t)g->limits.n_pages;
	x->page_bytes = (size_t)g->limits.page_size * (size_t)(x->n_series * x->dim) *
			dtype_bytes(g->limits.kv_type);
	const struct graph_want wanted[] = {{&x->values, n * x->page_bytes},
					    {&x->gates, n * x->page_bytes}};
	return graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
}

static enum status take_pages(struct graph *g, int i, struct fail *fail)
{
	struct layer *l = &g->layers[i];
	struct compressed *a = &l->compressed;
	size_t n = (size_t)g->limits.n_pages, kv = dtype_bytes(g->limits.kv_type);
	bool has_index = is_chosen(a);
	size_t each = (size_t)rows_of(g, a->ratio);
	/* graph_measure calls this before any weight is loaded. */
	a->own.dim = a->head_dim;
	a->own.n_series = has_index ? 2 : 1;
	a->index.dim = a->index_dim;
	a->index.n_series = 2;
	a->rope = g->rope[a->i_rope];
	l->k_bytes = ((size_t)g->limits.page_size + each) * (size_t)a->head_dim * kv;
	a->index_bytes = each * (size_t)a->index_dim * kv;
	enum status st = graph_alloc(g, n * l->k_bytes, &l->k_pages, fail);
	if (st == OK && a->ratio)
		st = take_inputs(g, &a->own, fail);
	if (st == OK && has_index)
		st = take_inputs(g, &a->index, fail);
	if (st == OK && has_index)
		st = graph_alloc(g, n * a->index_bytes, &a->index_rows, fail);
	return st;
}

/* Most rows that a token sees, with blocks of `ratio`, in a context of n_ctx positions. */
static int32_t width_of(const struct compressed *a, int32_t ratio, int32_t n_ctx)
{
	int32_t n = ratio ? n_ctx / ratio : 0;
	return MIN(a->window, n_ctx) + (ratio == a->index_ratio ? MIN(n, a->index_budget) : n);
}

enum status compressed_alloc(struct graph *g, struct fail *fail)
{
	const struct compressed *a = &g->layers[0].compressed; /* all layers have these sizes */
	struct compressed_scratch *r = &g->compressed;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t dim = (size_t)a->head_dim, h = t * (size_t)a->n_heads * dim;
	size_t index = t * (size_t)a->index_dim, heads = (size_t)a->index_heads;
	int32_t n_ctx = g->limits.n_ctx;
	if (a->n_heads == 0)
		return OK;
	r->width = MAX(width_of(a, a->index_ratio, n_ctx), width_of(a, a->heavy_ratio, n_ctx));
	const struct graph_want wanted[] = {
		{&r->q_a, t * (size_t)a->q_lora * sizeof *r->q_a},
		{&r->q_a_n, t * (size_t)a->q_lora * act},
		{&r->q, h * act},
		{&r->y, h * act},
		{&r->kv, t * dim * act},
		{&r->low, t * (size_t)(a->o_groups * a->o_lora) * act},
		{&r->value, t * 2 * MAX(dim, (size_t)a->index_dim) * act},
		{&r->gate, t * 2 * MAX(dim, (size_t)a->index_dim) * act},
		{&r->index_q, index * heads * act},
		{&r->weight, t * heads * sizeof *r->weight},
		{&r->rope_of[0], t * (size_t)(2 * a->n_freq) * sizeof *r->rope_of[0]},
		{&r->rope_of[1], t * (size_t)(2 * a->n_freq) * sizeof *r->rope_of[1]},
		{&r->scores, TOGETHER * (size_t)(n_ctx / a->index_ratio + 1) * sizeof *r->scores},
		{&r->chosen, t * (size_t)(a->index_budget + 1) * sizeof *r->chosen},
		{&r->chosen_last, t * sizeof *r->chosen_last},
		{&r->table, t * (size_t)r->width * sizeof *r->table},
		{&r->last, t * sizeof *r->last},
	};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	if (st == OK)
		st = graph_put_count(g, t + 1, &r->each, fail);
	for (int i = 0; i < g->n_layers && st == OK; i++)
		st = take_pages(g, i, fail);
	return st;
}

/* --- a step ------------------------------------------------------------------------ */

/* Makes the angles of blocks' first positions, for blocks of both sizes. */
enum status compressed_begin(struct graph *g, const struct graph_step *s, struct fail *fail)
{
	int32_t t = s->b->n_tok, n_freq = g->layers[0].compressed.n_freq;
	for (int k = 0; k < 2; k++)
		RUN(rope_table, .n_tok = t, .n_freq = n_freq,
		    .position = k ? s->ids.heavy_start : s->ids.block_start,
		    .inv_freq = g->inv_freq[0], .table = g->compressed.rope_of[k],
		    .scale = g->rope_factor[0]);
	return OK;
}

static struct row_pages rows_in(const struct graph *g, const struct layer *l)
{
	int32_t size = g->limits.page_size, each = rows_of(g, l->compressed.ratio);
	return (struct row_pages){.rows = l->k_pages, .type = g->limits.kv_type,
				  .page_size = size, .page_rows = size + each,
				  .first_row = size, .n_rows = each};
}

/* Makes r->q, and writes each token's own row. */
static enum status project(struct graph *g, const struct layer *l, const struct graph_step *s,
			   struct fail *fail)
{
	const struct compressed *a = &l->compressed;
	const struct compressed_scratch *r = &g->compressed;
	int32_t t = s->b->n_tok, n_freq = a->n_freq;
	RUN(linear, .n_tok = t, .x = g->n, .n_out = 2,
	    .out = {{.w = &a->q_a, .y = r->q_a, .is_f32 = true}, {.w = &a->kv, .y = r->kv}});
	RUN(rms_norm, .n_tok = t, .dim = a->q_lora, .eps = g->eps, .x = r->q_a,
	    .weight = a->q_norm, .y = r->q_a_n);
	RUN(linear, .n_tok = t, .x = r->q_a_n, .n_out = 1, .out = {{.w = &a->q_b, .y = r->q}});
	RUN(rope_tail, .n_tok = t, .n_heads = a->n_heads, .dim = a->head_dim, .n_freq = n_freq,
	    .normalises = true, .eps = g->eps, .x = r->q, .rope = a->rope, .y = r->q,
	    .slot = s->ids.slot);
	RUN(rope_tail, .n_tok = t, .n_heads = 1, .dim = a->head_dim, .n_freq = n_freq,
	    .normalises = true, .eps = g->eps, .x = r->kv, .norm = a->kv_norm,
	    .rope = a->rope, .slot = s->ids.slot, .to = rows_in(g, l));
	return OK;
}

/* Writes the compressor's values and gates of the step's tokens to its pages, and rows of the
 * blocks that they fill to `to`. */
static enum status compressed_fill(struct graph *g, const struct compressed *a,
				   const struct compressor *x,
				   const struct row_pages *to, const struct graph_step *s,
				   struct fail *fail)
{
	const struct compressed_scratch *r = &g->compressed;
	int32_t t = s->b->n_tok;
	RUN(linear, .n_tok = t, .x = g->n, .n_out = 2,
	    .out = {{.w = &x->value, .y = r->value}, {.w = &x->gate, .y = r->gate}});
	RUN(compress, .n_tok = t, .dim = x->dim, .ratio = x->ratio, .n_series = x->n_series,
	    .n_freq = a->n_freq, .eps = g->eps, .value = r->value,
	    .gate = r->gate, .bias = x->bias, .norm = x->norm,
	    .rope = r->rope_of[x->ratio != a->index_ratio], .slot = s->ids.slot,
	    .seq_of = s->ids.seq_of, .position = s->ids.position,
	    .page_table = s->ids.page_table, .max_pages_per_seq = s->max_pages_per_seq,
	    .values = x->values, .gates = x->gates, .to = *to);
	return OK;
}

/* Chooses the best blocks of each token, into r->chosen. */
static enum status compressed_choose(struct graph *g, const struct layer *l,
				     const struct graph_step *s, struct fail *fail)
{
	const struct compressed *a = &l->compressed;
	const struct compressed_scratch *r = &g->compressed;
	int32_t n_tok = s->b->n_tok, n = a->index_heads * a->index_dim, t = 0;
	int32_t each = rows_of(g, a->ratio);
	const struct row_pages to = {.rows = a->index_rows, .type = g->limits.kv_type,
				     .page_size = g->limits.page_size, .page_rows = each,
				     .n_rows = each};
	enum status st = compressed_fill(g, a, &a->index, &to, s, fail);
	if (st != OK)
		return st;
	t = n_tok;
	RUN(linear, .n_tok = t, .x = r->q_a_n, .n_out = 1,
	    .out = {{.w = &a->index_q, .y = r->index_q}});
	RUN(linear, .n_tok = t, .x = g->n, .n_out = 1,
	    .out = {{.w = &a->index_weights, .y = r->weight, .is_f32 = true}});
	RUN(rope_tail, .n_tok = t, .n_heads = a->index_heads, .dim = a->index_dim,
	    .n_freq = a->n_freq, .x = r->index_q, .rope = a->rope, .y = r->index_q,
	    .slot = s->ids.slot);
	t = 0;
	do {
		size_t at = (size_t)t;
		RUN(index_choose, .n_tok = MIN(TOGETHER, n_tok - t), .n_heads = a->index_heads,
		    .dim = a->index_dim, .ratio = a->ratio, .row = n, .top = a->index_budget,
		    .max_pages_per_seq = s->max_pages_per_seq, .n_ctx_max = s->n_ctx_max,
		    .q = (const char *)r->index_q + at * (size_t)n * dtype_bytes(g->b->act_type),
		    .weight = r->weight + at * (size_t)a->index_heads, .type = g->b->kv_type,
		    .page_size = g->limits.page_size, .blocks = a->index_rows,
		    .seq_of = s->ids.seq_of + t, .position = s->ids.position + t,
		    .page_table = s->ids.page_table, .work = r->scores,
		    .table = r->chosen + at * (size_t)(a->index_budget + 1),
		    .last = r->chosen_last + t);
		t += TOGETHER;
	} while (t < n_tok);
	return OK;
}

/* Makes r->y: attention of each token, as a sequence of its own, to the rows that it sees. */
static enum status attend_rows(struct graph *g, const struct layer *l, const struct graph_step *s,
			       struct fail *fail)
{
	const struct compressed *a = &l->compressed;
	const struct compressed_scratch *r = &g->compressed;
	int32_t t = s->b->n_tok;
	int32_t width = MIN(r->width, width_of(a, a->ratio, s->n_ctx_max));
	bool has_index = is_chosen(a);
	RUN(see_rows, .n_tok = t, .window = a->window, .ratio = a->ratio,
	    .max_pages_per_seq = s->max_pages_per_seq, .width = width,
	    .seq_of = s->ids.seq_of, .position = s->ids.position,
	    .page_table = s->ids.page_table, .chosen = has_index ? r->chosen : NULL,
	    .chosen_last = r->chosen_last, .chosen_pitch = a->index_budget + 1,
	    .of = rows_in(g, l), .table = r->table, .last = r->last);
	RUN(attention, .n_tok = t, .n_seq = t, .n_heads = a->n_heads, .n_kv_heads = 1,
	    .head_dim = a->head_dim, .v_dim = a->head_dim, .max_pages_per_seq = width,
	    .n_ctx_max = width, .scale = (float)(1 / sqrt(a->head_dim)), .q = r->q,
	    .kv = {.k = l->k_pages, .type = g->limits.kv_type, .page_size = 1},
	    .seq_of = r->each, .first_tok = r->each, .position = r->last,
	    .page_table = r->table, .y = r->y, .sinks = a->sinks);
	return OK;
}

enum status compressed_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			 struct fail *fail)
{
	const struct compressed *a = &l->compressed;
	const struct compressed_scratch *r = &g->compressed;
	int32_t t = s->b->n_tok, group = a->n_heads * a->head_dim / a->o_groups;
	const struct row_pages rows = rows_in(g, l);
	enum status st = project(g, l, s, fail);
	if (st == OK && a->ratio)
		st = compressed_fill(g, a, &a->own, &rows, s, fail);
	if (st == OK && is_chosen(a))
		st = compressed_choose(g, l, s, fail);
	graph_enter_attention(g, s, a->window, (size_t)a->head_dim * dtype_bytes(rows.type));
	st = st == OK ? attend_rows(g, l, s, fail) : st;
	if (st != OK)
		return st;
	profile_enter(g->b->profile, PROFILE_OUT);
	RUN(rope_tail, .n_tok = t, .n_heads = a->n_heads, .dim = a->head_dim,
	    .n_freq = a->n_freq, .is_back = true, .x = r->y, .rope = a->rope, .y = r->y,
	    .slot = s->ids.slot);
	RUN(head_linear, .n_tok = t, .n_heads = a->o_groups, .w = &a->o_a, .pitch = a->o_lora,
	    .first = 0, .n = a->o_lora, .x = r->y, .x_pitch = group, .y = r->low,
	    .y_pitch = a->o_lora);
	return graph_add(g, l, s, &(struct graph_add){.w = &a->o_b, .in = r->low}, fail);
}
