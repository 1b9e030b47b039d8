/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a tower. Operations on single rows (projections, mlp) run on VISION_CHUNK
 * patches at a time, so that the wide arrays stay small. Attention needs the keys and values of
 * all patches, which lie in pages like a language model's.
 */
#include <math.h>

#include "base/alloc.h"
#include "vision/vision_tower_private.h"

#define RUN VISION_RUN
#define LINEAR VISION_LINEAR

static void *row_of(const struct vision_run *r, void *p, int32_t i)
{
	return (char *)p + (size_t)i * (size_t)r->t->c.width * dtype_bytes(r->t->b->act_type);
}

static enum status norm_rows(struct vision_run *r, const struct vision_norm *w, int32_t i,
			     int32_t n)
{
	const struct vision_config *c = &r->t->c;
	return vision_head_norm(r, &(struct vision_norming){
		w, n, c->width, c->norm_eps, r->x + (size_t)i * (size_t)c->width, r->norm});
}

/* --- matrices with ranges --------------------------------------------------------------- */

static enum status clip(struct vision_run *r, const struct vision_range *range,
			const struct clip_args *a)
{
	if (range->cuts)
		RUN(clip, .n_tok = a->n_tok, .dim = a->dim, .low = range->low,
		    .high = range->high, .is_f32 = a->is_f32, .x = a->x, .y = a->y);
	return OK;
}

/* y = W x for n rows, with x and y clamped to the matrix's ranges. If x has a range, the
 * clamped x is written to `cut`, which may be x. */
struct ranged {
	const struct vision_linear *w;
	int32_t n;
	void *x, *cut, *y;
	bool is_f32; /* of y: float32, else act_type */
};

static enum status run_ranged(struct vision_run *r, const struct ranged *a)
{
	const struct vision_linear *w = a->w;
	enum status st = clip(r, &w->in, &(struct clip_args){.n_tok = a->n, .dim = w->w.k,
							     .x = a->x, .y = a->cut});
	if (st != OK)
		return st;
	LINEAR(*w, w->in.cuts ? a->cut : a->x, a->y, a->n, .is_f32 = a->is_f32);
	return clip(r, &w->out, &(struct clip_args){.n_tok = a->n, .dim = w->w.n,
						    .is_f32 = a->is_f32, .x = a->y, .y = a->y});
}

/* x += W in, or x += norm(W in) if post has weights; n rows. The clamp may overwrite `in`. */
static enum status vision_layer_add(struct vision_run *r, const struct vision_linear *w,
				    const struct vision_norm *post, void *in, float *x, int32_t n)
{
	const struct vision_config *c = &r->t->c;
	if (!post->weight) {
		LINEAR(*w, in, x, n, .adds = true);
		return OK;
	}
	enum status st = run_ranged(r, &(struct ranged){w, n, in, in, r->wide2, true});
	if (st != OK)
		return st;
	RUN(rms_norm, .n_tok = n, .dim = c->width, .eps = (float)c->norm_eps, .x = r->wide2,
	    .weight = post->weight, .sum = x);
	return OK;
}

/* --- parts of a layer ------------------------------------------------------------------- */

/* r->wide = act(Wgate x) * Wup x, where x is r->norm. */
static enum status run_gate(struct vision_run *r, const struct vision_layer *l, int32_t n)
{
	const struct vision_config *c = &r->t->c;
	if (!c->is_clipped) {
		RUN(linear, .n_tok = n, .x = r->norm, .n_out = 2, .act = &c->gate,
		    .out = {{.w = &l->gate.w, .bias = l->gate.bias, .y = r->wide},
			    {.w = &l->up.w, .bias = l->up.bias, .y = r->wide2}});
		return OK;
	}
	enum status st = run_ranged(r, &(struct ranged){&l->gate, n, r->norm, r->k, r->wide,
							false});
	if (st == OK)
		st = run_ranged(r, &(struct ranged){&l->up, n, r->norm, r->k, r->wide2, false});
	if (st != OK)
		return st;
	RUN(act_mul, .n_tok = n, .dim = c->ffn_dim, .act = c->gate, .gate = r->wide,
	    .up = r->wide2, .y = r->wide);
	return OK;
}

static enum status run_mlp(struct vision_run *r, const struct vision_layer *l, float *x,
			   int32_t n)
{
	const struct vision_config *c = &r->t->c;
	if (l->gate.w.n) {
		enum status st = run_gate(r, l, n);
		if (st != OK)
			return st;
	} else {
		LINEAR(l->up, r->norm, r->wide, n);
		RUN(gelu, .n_tok = n, .dim = c->ffn_dim, .is_tanh = c->is_tanh, .x = r->wide);
	}
	return vision_layer_add(r, &l->down, &l->post2, r->wide, x, n);
}

/* q, k and v from r->norm. Each head of v is normalised, without weights. */
static enum status project_gemma4(struct vision_run *r, const struct vision_layer *l, void *q,
				  int32_t n)
{
	const struct vision_config *c = &r->t->c;
	const struct ranged parts[] = {{&l->q, n, r->norm, r->wide, q, false},
				       {&l->k, n, r->norm, r->wide, r->k, false},
				       {&l->v, n, r->norm, r->wide, r->wide2, true}};
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		enum status st = run_ranged(r, &parts[i]);
		if (st != OK)
			return st;
	}
	RUN(rms_norm, .n_tok = n * c->n_heads, .dim = c->width / c->n_heads,
	    .eps = (float)c->norm_eps, .x = r->wide2, .weight = r->t->ones, .y = r->v);
	return OK;
}

static enum status project_plain(struct vision_run *r, const struct vision_layer *l, void *q,
				 int32_t n)
{
	RUN(linear, .n_tok = n, .x = r->norm, .n_out = 3,
	    .out = {{.w = &l->q.w, .bias = l->q.bias, .y = q},
		    {.w = &l->k.w, .bias = l->k.bias, .y = r->k},
		    {.w = &l->v.w, .bias = l->v.bias, .y = r->v}});
	return OK;
}

/* Queries, keys and values of rows [i, i + n), rotated. Keys and values go to their pages. */
static enum status project(struct vision_run *r, const struct vision_layer *l, int32_t i, int32_t n)
{
	const struct vision_config *c = &r->t->c;
	int32_t k = c->width / c->n_heads;
	enum status st = norm_rows(r, &l->norm1, i, n);
	if (st == OK)
		st = c->kind == VISION_GEMMA4 ? project_gemma4(r, l, row_of(r, r->q, i), n)
					      : project_plain(r, l, row_of(r, r->q, i), n);
	if (st != OK)
		return st;
	RUN(qk_norm_rope_kv, .n_tok = n, .n_heads = c->n_heads, .n_kv_heads = c->n_heads,
	    .head_dim = k, .n_freq = c->theta != 0 ? k / 2 : 0, .eps = (float)c->norm_eps,
	    .q = row_of(r, r->q, i), .k = r->k, .v = r->v, .q_norm = l->q_norm,
	    .k_norm = l->k_norm,
	    .rope = r->rope + (size_t)i * (size_t)k, .slot = r->slot + i,
	    .kv = {.k = r->k_pages, .v = r->v_pages, .type = r->t->b->kv_type,
		   .page_size = VISION_PAGE});
	return OK;
}

enum status vision_layer_run(struct vision_run *r, const struct vision_layer *l)
{
	const struct vision_config *c = &r->t->c;
	int32_t k = c->width / c->n_heads;
	size_t d = (size_t)c->width;
	enum status st = OK;
	for (int32_t i = 0; i < r->n && st == OK; i += VISION_CHUNK)
		st = project(r, l, i, MIN(VISION_CHUNK, r->n - i));
	if (st != OK)
		return st;
	RUN(attention, .n_tok = r->n, .n_seq = 1, .n_heads = c->n_heads,
	    .n_kv_heads = c->n_heads, .head_dim = k,
	    .max_pages_per_seq = DIV_UP(r->n, VISION_PAGE), .n_ctx_max = r->n,
	    .scale = c->kind == VISION_GEMMA4 ? 1 : (float)(1 / sqrt(k)), .q = r->q,
	    .kv = {.k = r->k_pages, .v = r->v_pages, .type = r->t->b->kv_type,
		   .page_size = VISION_PAGE}, .seq_of = r->seq_of, .position = r->slot,
	    .last_seen = r->last, .first_tok = r->first_tok, .page_table = r->table, .y = r->y);
	for (int32_t i = 0, n; i < r->n; i += n) {
		n = MIN(VISION_CHUNK, r->n - i);
		float *x = r->x + (size_t)i * d;
		st = vision_layer_add(r, &l->out, &l->post1, row_of(r, r->y, i), x, n);
		if (st == OK)
			st = norm_rows(r, &l->norm2, i, n);
		if (st == OK)
			st = run_mlp(r, l, x, n);
		if (st != OK)
			return st;
	}
	return OK;
}
