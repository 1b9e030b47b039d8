/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a tower's layers, and the tower's working memory.
 */
#include "vision/vision_tower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "vision/vision_patches.h"
#include "vision/vision_tower_private.h"

#define RUN VISION_RUN
#define LINEAR VISION_LINEAR

static size_t act_bytes(const struct vision_run *r)
{
	return dtype_bytes(r->t->b->act_type);
}

/* --- what goes in ------------------------------------------------------------------- */

/* Stretches n places over `side` learned ones. Place i lies between learned place *out_at and
 * the next; returns the distance from *out_at, 0 to 1. */
static float between(int32_t i, int32_t n, int32_t side, int32_t *out_at)
{
	float at = n > 1 ? (float)i * (float)(side - 1) / (float)(n - 1) : 0;
	*out_at = MIN((int32_t)at, MAX(side - 2, 0));
	return at - (float)*out_at;
}

/* The learned position of patch i: a mean of the four around it, weighted by how near they are
 * (bilinear); Gemma: the sum of column's and row's. */
void vision_tower_place(const struct vision_run *r, int32_t i, float *out)
{
	const struct vision_config *c = &r->t->c;
	int32_t row, col, row_at, col_at;
	size_t d = (size_t)c->width;
	if (!r->t->places) {
		memset(out, 0, d * sizeof *out);
		return;
	}
	vision_patches_place(c, r->n_cols, i, &row, &col);
	if (vision_config_fills(c)) {
		const float *x = r->t->places + (size_t)col * d;
		const float *y = r->t->places + ((size_t)r->t->n_places + (size_t)row) * d;
		for (size_t k = 0; k < d; k++)
			out[k] = x[k] + y[k];
		return;
	}
	float down = between(row, r->n / r->n_cols, c->side, &row_at);
	float right = between(col, r->n_cols, c->side, &col_at);
	size_t step = c->side > 1 ? (size_t)c->side * d : 0, next = c->side > 1 ? d : 0;
	const float *p = r->t->places + ((size_t)row_at * (size_t)c->side + (size_t)col_at) * d;
	for (size_t k = 0; k < d; k++)
		out[k] = (p[k] * (1 - down) + p[step + k] * down) * (1 - right) +
			 (p[next + k] * (1 - down) + p[step + next + k] * down) * right;
}

/* Send patches [i, i + n) to r->wide. */
static enum status send_patches(struct vision_run *r, int32_t i, int32_t n)
{
	struct backend *b = r->t->b;
	size_t dim = (size_t)vision_config_patch_dim(&r->t->c), act = act_bytes(r);
	size_t pitch = (size_t)r->t->patch.w.k;
	vision_patches_write(&r->t->c, &r->pixels, i, n, r->host);
	memset(r->sent, 0, (size_t)n * pitch * act);
	for (size_t k = 0; k < (size_t)n; k++)
		backend_to_act(b, r->host + k * dim, dim, r->sent + k * pitch * act);
	enum status st = b->ops->upload(b, r->wide, r->sent, (size_t)n * pitch * act);
	return st == OK ? b->ops->sync(b, r->fail) : st;
}

/* x = norm(W patch + b) for n rows. W patch + b needs an array of its own, because it is in
 * float32. */
static enum status embed_normed(struct vision_run *r, float *x, int32_t n)
{
	const struct vision_config *c = &r->t->c;
	LINEAR(r->t->patch, r->wide, r->wide2, n, .is_f32 = true);
	RUN(rms_norm, .n_tok = n, .dim = c->width, .eps = (float)c->norm_eps, .x = r->wide2,
	    .weight = r->t->norm0.weight, .sum = x);
	return OK;
}

static enum status embed(struct vision_run *r)
{
	const struct vision_config *c = &r->t->c;
	struct backend *b = r->t->b;
	size_t d = (size_t)c->width;
	for (int32_t i = 0, n; i < r->n; i += n) {
		n = MIN(VISION_CHUNK, r->n - i);
		float *x = r->x + (size_t)i * d;
		enum status st = send_patches(r, i, n);
		for (int32_t k = 0; k < n; k++)
			vision_tower_place(r, i + k, r->host + (size_t)k * d);
		if (st == OK)
			st = b->ops->upload(b, x, r->host, (size_t)n * d * sizeof *r->host);
		if (st == OK && r->t->norm0.weight)
			st = embed_normed(r, x, n);
		if (st == OK) /* an upload may still be reading the host's memory */
			st = b->ops->sync(b, r->fail);
		if (st != OK)
			return fail_default(r->fail, st);
		if (!r->t->norm0.weight)
			LINEAR(r->t->patch, r->wide, x, n, .adds = true);
	}
	return OK;
}

/* Half of a head's pairs rotate by the row, half by the column. Pixtral's column frequencies
 * lie between its row frequencies. In Gemma the column's half comes first. */
static enum status set_rope(struct vision_run *r)
{
	const struct vision_config *c = &r->t->c;
	struct backend *b = r->t->b;
	int32_t half = c->width / c->n_heads / 2, quarter = half / 2;
	bool is_odd = c->kind == VISION_PIXTRAL;
	size_t n = (size_t)r->n * (size_t)half * 2;
	float *table = xmalloc(n * sizeof *table), *to = table;
	for (int32_t i = 0; i < r->n; i++) {
		int32_t place[2];
		bool is_swapped = c->kind == VISION_GEMMA4;
		vision_patches_place(c, r->n_cols, i, &place[is_swapped], &place[!is_swapped]);
		for (int32_t k = 0; k < half; k++, to += 2) {
			double at = k % quarter + (is_odd && k >= quarter ? 0.5 : 0);
			double freq = pow(c->theta, -at / quarter);
			to[0] = (float)cos(place[k / quarter] * freq);
			to[1] = (float)sin(place[k / quarter] * freq);
		}
	}
	enum status st = b->ops->upload(b, r->rope, table, n * sizeof *table);
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	free(table);
	return st;
}

static enum status set_ids(struct vision_run *r)
{
	struct backend *b = r->t->b;
	int32_t n = r->n, n_pages = DIV_UP(n, VISION_PAGE);
	int32_t *ids = xcalloc((size_t)n, sizeof *ids);
	const int32_t first[2] = {0, n};
	for (int32_t i = 0; i < n; i++)
		ids[i] = i;
	enum status st = b->ops->upload(b, r->slot, ids, (size_t)n * sizeof *ids);
	if (st == OK)
		st = b->ops->upload(b, r->table, ids, (size_t)n_pages * sizeof *ids);
	if (st == OK)
		st = b->ops->upload(b, r->first_tok, first, sizeof first);
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	for (int32_t i = 0; i < n; i++)
		ids[i] = n - 1;
	if (st == OK)
		st = b->ops->upload(b, r->last, ids, (size_t)n * sizeof *ids);
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	free(ids);
	return st;
}

/* --- memory ------------------------------------------------------------------------- */

static enum status run_all(struct vision_run *r, float *rows)
{
	struct vision_tower *t = r->t;
	size_t level = (size_t)r->n / (size_t)(t->c.merge * t->c.merge) *
		       (size_t)t->c.out_width;
	if (t->c.kind == VISION_PLAIN)
		return vision_plain_run(r, rows);
	enum status st = embed(r);
	if (st == OK && t->c.theta != 0)
		st = set_rope(r);
	if (st == OK)
		st = set_ids(r);
	for (int32_t i = 0; i < t->c.depth && st == OK; i++) {
		st = vision_layer_run(r, &t->layers[i]);
		for (int32_t k = 0; k < t->c.n_deep && st == OK; k++)
			if (t->c.deep_at[k] == i)
				st = vision_head_merge(r, &t->merger[1 + k],
						       rows + (size_t)(1 + k) * level);
	}
	return st == OK ? vision_head_run(r, rows) : st;
}

struct vision_want {
	void *out;
	size_t n_bytes;
};

/* Lists the arrays that a run of r->n patches needs. */
static void list_wanted(struct vision_run *r, struct vision_want out[VISION_ARRAYS])
{
	const struct vision_config *c = &r->t->c;
	const struct backend *b = r->t->b;
	size_t n = (size_t)r->n, d = (size_t)c->width, act = dtype_bytes(b->act_type);
	size_t pages = ROUND_UP(n, VISION_PAGE);
	size_t dim = (size_t)vision_config_patch_dim(c);
	size_t rows_out = (size_t)c->out_width;
	size_t wide = MAX(MAX((size_t)c->ffn_dim, dim), MAX(d, rows_out));
	bool is_twice = c->kind == VISION_PIXTRAL || vision_config_fills(c);
	const struct vision_want wanted[VISION_ARRAYS] = {
		{&r->x, n * d * sizeof *r->x},
		{&r->rope, n * d / (size_t)c->n_heads * sizeof *r->rope},
		{&r->norm, VISION_CHUNK * d * act}, {&r->q, n * d * act},
		{&r->y, n * d * act}, {&r->k, VISION_CHUNK * d * act},
		{&r->v, VISION_CHUNK * d * act},
		{&r->wide, VISION_CHUNK * wide * MAX(act, sizeof(float))},
		{&r->wide2, is_twice ? VISION_CHUNK * wide * sizeof(float) : 1},
		{&r->k_pages, pages * d * dtype_bytes(b->kv_type)},
		{&r->v_pages, pages * d * dtype_bytes(b->kv_type)},
		{&r->out, VISION_CHUNK * rows_out * sizeof *r->out},
		{&r->slot, n * sizeof *r->slot}, {&r->last, n * sizeof *r->last},
		{&r->seq_of, n * sizeof *r->seq_of},
		{&r->first_tok, 2 * sizeof *r->first_tok}, {&r->table, pages * sizeof *r->table},
	};
	memcpy(out, wanted, sizeof wanted);
}

/* Numbers in a row of vision_run.host and of vision_run.sent. */
static size_t host_row(const struct vision_config *c)
{
	return MAX((size_t)vision_config_patch_dim(c) + 7, (size_t)c->width);
}

int64_t vision_tower_work_bytes(const struct vision_config *c, struct backend *b, int32_t n)
{
	struct vision_tower t = {.c = *c, .b = b};
	struct vision_run r = {.t = &t, .n = n};
	struct vision_want wanted[VISION_ARRAYS];
	int64_t n_bytes = (int64_t)(2 * VISION_CHUNK * host_row(c) * sizeof *r.host);
	list_wanted(&r, wanted);
	for (size_t i = 0; i < VISION_ARRAYS; i++)
		n_bytes += (int64_t)wanted[i].n_bytes;
	return n_bytes;
}

/* Take device memory for the arrays of r. taken: memory to use; where an entry is NULL, it is
 * allocated and stored there. */
static enum status vision_tower_take(struct vision_run *r, void *taken[VISION_ARRAYS])
{
	struct backend *b = r->t->b;
	struct vision_want wanted[VISION_ARRAYS];
	enum status st = OK;
	list_wanted(r, wanted);
	for (size_t i = 0; i < VISION_ARRAYS && st == OK; i++) {
		if (!taken[i])
			st = b->ops->alloc(b, wanted[i].n_bytes, &taken[i]);
		memcpy(wanted[i].out, &taken[i], sizeof taken[i]);
	}
	return st;
}

static void give_back(struct vision_tower *t, void *taken[VISION_ARRAYS])
{
	for (size_t i = 0; i < VISION_ARRAYS; i++)
		if (taken[i])
			t->b->ops->free(t->b, taken[i]);
}

enum status vision_tower_keep(struct vision_tower *t, int32_t n, struct fail *fail)
{
	struct vision_run r = {.t = t, .n = n};
	enum status st = vision_tower_take(&r, t->kept);
	t->n_kept = st == OK ? n : 0;
	return st == OK ? OK : fail_default(fail, st);
}

enum status vision_tower_run(struct vision_tower *t, const struct vision_pixels *p, float *rows,
			     struct fail *fail)
{
	const struct vision_config *c = &t->c;
	const struct image *m = p->m;
	struct vision_run r = {.t = t, .pixels = *p, .n_cols = m->width / c->patch,
			.n = m->width / c->patch * (m->height / c->patch), .fail = fail};
	bool is_kept = r.n <= t->n_kept;
	void *own[VISION_ARRAYS] = {NULL};
	enum status st = vision_tower_take(&r, is_kept ? t->kept : own);
	r.host = malloc(VISION_CHUNK * host_row(c) * sizeof *r.host);
	r.sent = malloc(VISION_CHUNK * host_row(c) * sizeof *r.host);
	if (st == OK)
		st = r.host && r.sent ? run_all(&r, rows) : E_NOMEM;
	give_back(t, own);
	free(r.sent);
	free(r.host);
	return st == OK ? OK : fail_default(fail, st);
}

/* Runs attention on no patch, so that a backend that cannot compute it fails at start. */
static enum status try_attention(struct vision_tower *t, struct fail *fail)
{
	struct vision_run run = {.t = t, .fail = fail}, *r = &run;
	void *any = t->memory.blocks[0];
	RUN(attention, .n_heads = t->c.n_heads, .n_kv_heads = t->c.n_heads,
	    .head_dim = t->c.width / t->c.n_heads, .n_ctx_max = 1, .scale = 1, .q = any,
	    .kv = {.k = any, .v = any, .type = t->b->kv_type, .page_size = VISION_PAGE},
	    .seq_of = any, .position = any, .last_seen = any, .first_tok = any,
	    .page_table = any, .y = any);
	return OK;
}

enum status vision_tower_create(const struct tensors *tensors, struct backend *b,
				const struct vision_config *c, struct vision_tower **out,
				struct fail *fail)
{
	struct vision_tower *t = xcalloc(1, sizeof *t);
	t->c = *c;
	t->b = b;
	t->layers = xcalloc((size_t)c->depth, sizeof *t->layers);
	enum status st = vision_load(t, tensors, fail);
	if (st == OK && c->depth)
		st = try_attention(t, fail);
	if (st != OK) {
		vision_tower_destroy(t);
		return st;
	}
	*out = t;
	return OK;
}

void vision_tower_destroy(struct vision_tower *t)
{
	if (!t)
		return;
	tower_free(&t->memory, t->b);
	give_back(t, t->kept);
	free(t->places);
	free(t->layers);
	free(t);
}
