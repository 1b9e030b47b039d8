/* SPDX-License-Identifier: Apache-2.0
 *
 *   BERT:   x = norm(embed[token] + place + type)
 *           each layer:  x = norm(x + attention(x));  x = norm(x + mlp(x))
 *   Gemma:  x = scale embed[token]
 *           each layer:  x += norm(attention(norm(x)));  x += norm(mlp(norm(x)))
 *           rows = norm(x)
 *
 * Keys and values lie in pages, like a language model's. Each text begins a new page.
 */
#include "embed/encoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "embed/encoder_private.h"

enum { PAGE = 16, CHUNK = 512 }; /* PAGE: tokens of a page; CHUNK: rows of the wide arrays */

/* The arrays of a step. T: its tokens, D: d_model, C: CHUNK. The backend computes in float32. */
struct encoder_pass {
	struct encoder *e;
	const struct encoder_batch *batch;
	struct fail *fail;
	int32_t n;              /* T */
	int32_t n_ctx_max, max_pages, n_pages;
	float *x, *n_x;         /* (T, D): the rows, and their norm */
	float *part;            /* (T, D) */
	float *q, *y;           /* (T, H K) */
	float *k, *v;           /* (T, G K) */
	float *gate, *up;       /* (C, F) */
	void *k_pages, *v_pages;
	float *rope[MODEL_MAX_ROPES]; /* (T, K/2, 2) */
	int32_t *ids, *position, *slot, *seq_of, *first_tok, *table;
	int32_t *last, *near_last; /* (T) last position that a token attends to, in layers
				    * without and with a window */
};

/* Queue an operation, or return from the caller with its failure. */
#define RUN(op, ...) do { \
	struct backend *b_ = r->e->b; \
	enum status st_ = b_->ops->op(b_, &(struct op##_args){__VA_ARGS__}); \
	if (st_ != OK) \
		return fail_set(r->fail, st_, "encoder: " #op " failed: %s", \
				backend_why(b_, st_)); \
} while (0)

#define LINEAR(lin, n_, in, to, ...) \
	RUN(linear, .n_tok = n_, .x = in, .n_out = 1, \
	    .out = {{.w = &(lin)->w, .bias = (lin)->bias, .y = to, __VA_ARGS__}})

/* --- ids ------------------------------------------------------------------------------ */

/* Fills in, for each token and text, the host's copies of the arrays that operations read. */
static void fill_ids(const struct encoder_pass *r, int32_t *const host[6])
{
	const struct encoder_batch *b = r->batch;
	int32_t w = r->e->c->window, page = 0;
	for (int32_t s = 0; s < b->n_text; s++) {
		int32_t first = b->first_tok[s], n = b->first_tok[s + 1] - first;
		for (int32_t i = 0; i < n; i++) {
			int32_t at = first + i;
			host[0][at] = i;
			host[1][at] = page * PAGE + i;
			host[2][at] = s;
			host[3][at] = n - 1;
			host[4][at] = w ? MIN(n - 1, i + w - 1) : n - 1;
		}
		int32_t *table = host[5] + (size_t)s * (size_t)r->max_pages;
		for (int32_t i = 0; i * PAGE < n; i++)
			table[i] = page++;
	}
}

static enum status set_ids(struct encoder_pass *r)
{
	struct backend *b = r->e->b;
	const struct encoder_batch *in = r->batch;
	size_t t = (size_t)r->n, n_table = (size_t)in->n_text * (size_t)r->max_pages;
	int32_t *all = xcalloc(5 * t + n_table, sizeof *all), *host[6];
	int32_t *const to[] = {r->position, r->slot, r->seq_of, r->last, r->near_last, r->table};
	for (size_t i = 0; i < ARRAY_LEN(to); i++)
		host[i] = all + i * t;
	fill_ids(r, host);
	enum status st = b->ops->upload(b, r->ids, in->ids, t * sizeof *r->ids);
	if (st == OK)
		st = b->ops->upload(b, r->first_tok, in->first_tok,
				    ((size_t)in->n_text + 1) * sizeof *r->first_tok);
	for (size_t i = 0; i < ARRAY_LEN(to) && st == OK; i++)
		st = b->ops->upload(b, to[i], host[i], (i < 5 ? t : n_table) * sizeof *all);
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	free(all);
	return st;
}

/* --- embeddings ------------------------------------------------------------------------ */

/* y = norm(x). */
static enum status norm_rows(struct encoder_pass *r, const struct encoder_norm *w,
			     const float *x, float *y)
{
	const struct model_config *c = r->e->c;
	if (w->bias)
		RUN(layer_norm, .n_tok = r->n, .dim = c->d_model, .eps = c->norm_eps, .x = x,
		    .weight = w->weight, .bias = w->bias, .y = y);
	else
		RUN(rms_norm, .n_tok = r->n, .dim = c->d_model, .eps = c->norm_eps,
		    .x = (float *)(uintptr_t)x, .weight = w->weight, .y = y);
	return OK;
}

/* x = norm(x). */
static enum status norm_in_place(struct encoder_pass *r, const struct encoder_norm *w)
{
	enum status st = norm_rows(r, w, r->x, r->n_x);
	float *x = r->x;
	r->x = r->n_x;
	r->n_x = x;
	return st;
}

/* x += the learned rows of each token's position and type. rms_norm adds them; its y is not
 * used. */
static enum status add_places(struct encoder_pass *r)
{
	const struct encoder *e = r->e;
	const struct encoder_batch *in = r->batch;
	struct backend *b = e->b;
	size_t d = (size_t)e->c->d_model;
	float *host = xcalloc((size_t)r->n * d, sizeof *host);
	for (int32_t s = 0; s < in->n_text; s++)
		for (int32_t t = in->first_tok[s]; t < in->first_tok[s + 1]; t++) {
			size_t place = (size_t)(e->c->encoder.first_place + t - in->first_tok[s]);
			float *to = host + (size_t)t * d;
			for (size_t i = 0; i < d; i++)
				to[i] = (e->places ? e->places[place * d + i] : 0) +
					(e->types ? e->types[i] : 0);
		}
	enum status st = b->ops->upload(b, r->part, host, (size_t)r->n * d * sizeof *host);
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	free(host);
	if (st != OK)
		return fail_default(r->fail, st);
	RUN(rms_norm, .n_tok = r->n, .dim = e->c->d_model, .eps = 1, .x = r->x, .add = r->part,
	    .weight = e->embed_norm.weight, .y = r->n_x);
	return OK;
}

static enum status encoder_begin(struct encoder_pass *r)
{
	struct encoder *e = r->e;
	enum status st = set_ids(r);
	if (st != OK)
		return fail_default(r->fail, st);
	for (int32_t i = 0; i < e->c->n_ropes; i++)
		RUN(rope_table, .n_tok = r->n, .n_freq = model_n_rot(e->c, i) / 2,
		    .position = r->position, .inv_freq = e->inv_freq[i], .table = r->rope[i],
		    .scale = e->rope_scale[i]);
	RUN(embed_rows, .n_tok = r->n, .table = &e->embed, .token = r->ids, .x = r->x,
	    .scale = e->c->embed_scale);
	if (!e->c->encoder.is_bert)
		return OK;
	st = add_places(r);
	return st == OK ? norm_in_place(r, &e->embed_norm) : st;
}

/* --- layers ---------------------------------------------------------------------------- */

/* r->y = the attention of rows x. */
static enum status attend(struct encoder_pass *r, const struct encoder_layer *l, const float *x)
{
	const struct model_config *c = r->e->c;
	int32_t k = c->head_dim, rope = MAX(l->rope, 0);
	struct kv_pages kv = {.k = r->k_pages, .v = r->v_pages, .type = r->e->b->kv_type,
			      .page_size = PAGE};
	double per = c->query_scalar > 0 ? (double)c->query_scalar : k;
	RUN(linear, .n_tok = r->n, .x = x, .n_out = 3,
	    .out = {{.w = &l->q.w, .bias = l->q.bias, .y = r->q},
		    {.w = &l->k.w, .bias = l->k.bias, .y = r->k},
		    {.w = &l->v.w, .bias = l->v.bias, .y = r->v}});
	RUN(qk_norm_rope_kv, .n_tok = r->n, .n_heads = c->n_heads,
	    .n_kv_heads = c->n_kv_heads, .head_dim = k, .eps = c->norm_eps,
	    .n_freq = l->rope < 0 ? 0 : model_n_rot(c, rope) / 2, .q = r->q, .k = r->k,
	    .v = r->v, .q_norm = l->q_norm, .k_norm = l->k_norm, .rope = r->rope[rope],
	    .slot = r->slot, .kv = kv);
	RUN(attention, .n_tok = r->n, .n_seq = r->batch->n_text, .n_heads = c->n_heads,
	    .n_kv_heads = c->n_kv_heads, .head_dim = k, .max_pages_per_seq = r->max_pages,
	    .n_ctx_max = r->n_ctx_max, .window = l->window, .scale = (float)(1 / sqrt(per)),
	    .q = r->q, .kv = kv, .seq_of = r->seq_of, .position = r->position,
	    .last_seen = l->window ? r->near_last : r->last, .first_tok = r->first_tok,
	    .page_table = r->table, .y = r->y);
	return OK;
}

/* y (T, D) = mlp(x), or y += mlp(x) if `adds`; then y may be x. */
static enum status encoder_feed(struct encoder_pass *r, const struct encoder_layer *l,
				const float *x, float *y, bool adds)
{
	const struct model_config *c = r->e->c;
	size_t d = (size_t)c->d_model;
	for (int32_t i = 0, n; i < r->n; i += n) {
		const float *from = x + (size_t)i * d;
		n = MIN(CHUNK, r->n - i);
		if (c->encoder.is_ungated) {
			LINEAR(&l->up, n, from, r->gate);
			RUN(gelu, .n_tok = n, .dim = c->ffn_dim, .is_tanh = !c->encoder.exact_gelu,
			    .x = r->gate);
		} else {
			RUN(linear, .n_tok = n, .x = from, .n_out = 2, .act = &c->act,
			    .out = {{.w = &l->gate.w, .y = r->gate},
				    {.w = &l->up.w, .y = r->up}});
		}
		LINEAR(&l->down, n, r->gate, y + (size_t)i * d, .is_f32 = !adds, .adds = adds);
	}
	return OK;
}

/* x = norm(x + part(x)), twice. */
static enum status run_bert(struct encoder_pass *r, const struct encoder_layer *l)
{
	enum status st = attend(r, l, r->x);
	if (st != OK)
		return st;
	LINEAR(&l->out, r->n, r->y, r->x, .adds = true);
	st = norm_in_place(r, &l->mixer_post);
	if (st == OK) /* each chunk reads its own rows before it adds to them */
		st = encoder_feed(r, l, r->x, r->x, true);
	return st == OK ? norm_in_place(r, &l->mlp_post) : st;
}

/* x += norm(part(norm(x))), twice. */
static enum status run_gemma(struct encoder_pass *r, const struct encoder_layer *l)
{
	const struct model_config *c = r->e->c;
	enum status st = norm_rows(r, &l->mixer, r->x, r->n_x);
	if (st == OK)
		st = attend(r, l, r->n_x);
	if (st != OK)
		return st;
	LINEAR(&l->out, r->n, r->y, r->part, .is_f32 = true);
	RUN(rms_norm, .n_tok = r->n, .dim = c->d_model, .eps = c->norm_eps, .x = r->part,
	    .weight = l->mixer_post.weight, .sum = r->x);
	st = norm_rows(r, &l->mlp, r->x, r->n_x);
	if (st == OK)
		st = encoder_feed(r, l, r->n_x, r->part, false);
	if (st != OK)
		return st;
	RUN(rms_norm, .n_tok = r->n, .dim = c->d_model, .eps = c->norm_eps, .x = r->part,
	    .weight = l->mlp_post.weight, .sum = r->x);
	return OK;
}

static enum status run_all(struct encoder_pass *r, float *rows)
{
	struct encoder *e = r->e;
	const struct model_config *c = e->c;
	enum status st = encoder_begin(r);
	for (int32_t i = 0; i < c->n_layers && st == OK; i++)
		st = c->encoder.is_bert ? run_bert(r, &e->layers[i]) : run_gemma(r, &e->layers[i]);
	if (st == OK && !c->encoder.is_bert)
		st = norm_rows(r, &e->out_norm, r->x, r->n_x);
	if (st == OK)
		st = e->b->ops->download(e->b, rows, c->encoder.is_bert ? r->x : r->n_x,
					 (size_t)r->n * (size_t)c->d_model * sizeof *rows);
	return st == OK ? e->b->ops->sync(e->b, r->fail) : st;
}

/* --- memory ---------------------------------------------------------------------------- */

static void encoder_count(struct encoder_pass *r)
{
	const struct encoder_batch *b = r->batch;
	r->n = b->first_tok[b->n_text];
	for (int32_t s = 0; s < b->n_text; s++) {
		int32_t n = b->first_tok[s + 1] - b->first_tok[s];
		r->n_ctx_max = MAX(r->n_ctx_max, n);
		r->n_pages += DIV_UP(n, PAGE);
	}
	r->max_pages = DIV_UP(r->n_ctx_max, PAGE);
}

struct encoder_want {
	void *out;
	size_t n_bytes;
};
enum { N_WANTED = 21 };

/* Lists the arrays that a pass of r->n tokens and n_text texts needs, with their sizes. */
static void list_wanted(struct encoder_pass *r, int32_t n_text, struct encoder_want out[N_WANTED])
{
	const struct model_config *c = r->e->c;
	size_t t = (size_t)r->n, d = (size_t)c->d_model, f = sizeof(float), id = sizeof(int32_t);
	size_t nq = (size_t)(c->n_heads * c->head_dim), nkv = (size_t)(c->n_kv_heads * c->head_dim);
	size_t wide = MIN(t, CHUNK) * (size_t)c->ffn_dim * f;
	size_t kv = (size_t)r->n_pages * PAGE * nkv * dtype_bytes(r->e->b->kv_type);
	size_t rope = t * (size_t)c->head_dim * f;
	const struct encoder_want wanted[N_WANTED] = {
		{&r->x, t * d * f}, {&r->n_x, t * d * f}, {&r->part, t * d * f},
		{&r->q, t * nq * f}, {&r->y, t * nq * f}, {&r->k, t * nkv * f},
		{&r->v, t * nkv * f}, {&r->gate, wide}, {&r->up, wide}, {&r->k_pages, kv},
		{&r->v_pages, kv}, {&r->rope[0], rope}, {&r->rope[1], rope}, {&r->ids, t * id},
		{&r->position, t * id}, {&r->slot, t * id}, {&r->seq_of, t * id},
		{&r->last, t * id}, {&r->near_last, t * id},
		{&r->first_tok, ((size_t)n_text + 1) * id},
		{&r->table, (size_t)n_text * (size_t)r->max_pages * id},
	};
	memcpy(out, wanted, sizeof wanted);
}

int64_t encoder_work_bytes(const struct model_config *c, const struct backend *b, int32_t n_tok,
			   int32_t n_text)
{
	struct encoder e = {.c = c, .b = (struct backend *)(uintptr_t)b};
	/* One text has the widest page table. Of many texts, each may have a page that is not
	 * full. */
	struct encoder_pass r = {.e = &e, .n = n_tok, .max_pages = n_tok / PAGE + 1,
				 .n_pages = n_tok / PAGE + n_text};
	struct encoder_want wanted[N_WANTED];
	int64_t n_bytes = 2 * (int64_t)n_tok * c->d_model * (int64_t)sizeof(float);
	list_wanted(&r, n_text, wanted);
	for (size_t i = 0; i < N_WANTED; i++)
		n_bytes += (int64_t)wanted[i].n_bytes;
	return n_bytes;
}

enum status encoder_run(struct encoder *e, const struct encoder_batch *batch, float *rows,
			struct fail *fail)
{
	struct encoder_pass r = {.e = e, .batch = batch, .fail = fail};
	struct encoder_want wanted[N_WANTED];
	enum status st = OK;
	void *taken[N_WANTED] = {NULL};
	encoder_count(&r);
	list_wanted(&r, batch->n_text, wanted);
	for (size_t i = 0; i < N_WANTED && st == OK; i++) {
		st = e->b->ops->alloc(e->b, wanted[i].n_bytes, &taken[i]);
		memcpy(wanted[i].out, &taken[i], sizeof taken[i]);
	}
	if (st == OK)
		st = run_all(&r, rows);
	for (size_t i = 0; i < N_WANTED; i++)
		if (taken[i])
			e->b->ops->free(e->b, taken[i]);
	return st == OK ? OK : fail_default(fail, st);
}

enum status encoder_create(struct model *m, struct backend *b, struct encoder **out,
			   struct fail *fail)
{
	if (b->act_type != DTYPE_F32)
		return fail_set(fail, E_UNSUPPORTED, "encoders run on the CPU backend only");
	struct encoder *e = xcalloc(1, sizeof *e);
	*e = (struct encoder){.m = m, .c = &m->config, .b = b};
	e->layers = xcalloc((size_t)e->c->n_layers, sizeof *e->layers);
	enum status st = encoder_load(e, fail);
	if (st != OK) {
		encoder_destroy(e);
		return st;
	}
	*out = e;
	return OK;
}

void encoder_destroy(struct encoder *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n_blocks; i++)
		e->b->ops->free(e->b, e->blocks[i]);
	free(e->blocks);
	free(e->layers);
	free(e);
}
