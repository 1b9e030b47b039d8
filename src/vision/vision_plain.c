/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 4 Unified has a tower without layers. With three layer norms it computes
 *
 *   row = W3 rms(norm3(norm2(W1 norm1(pixels) + b) + positions))
 *
 * Source: modeling_gemma4_unified.py of Hugging Face Transformers. Rows of act_type are added
 * by a norm operation that adds first; the normalised sum is not used.
 */
#include "base/alloc.h"
#include "vision/vision_patches.h"
#include "vision/vision_tower_private.h"

#define RUN VISION_RUN
#define LINEAR VISION_LINEAR

static enum status send(struct vision_run *r, float *to, size_t n)
{
	struct backend *b = r->t->b;
	enum status st = b->ops->upload(b, to, r->host, n * sizeof *to);
	if (st == OK) /* the upload may still be reading the host's memory */
		st = b->ops->sync(b, r->fail);
	return st == OK ? OK : fail_default(r->fail, st);
}

/* r->norm = norm2(W1 norm1(pixels) + b), for tokens [i, i + n). */
static enum status embed(struct vision_run *r, int32_t i, int32_t n)
{
	const struct vision_tower *t = r->t;
	int32_t dim = vision_config_patch_dim(&t->c);
	vision_patches_write(&t->c, &r->pixels, i, n, r->host);
	enum status st = send(r, r->wide, (size_t)n * (size_t)dim);
	if (st == OK)
		st = vision_head_norm(r, &(struct vision_norming){
			&t->plain[0], n, dim, t->c.norm_eps, r->wide, r->wide2});
	if (st != OK)
		return st;
	LINEAR(t->patch, r->wide2, r->wide, n, .is_f32 = true);
	return vision_head_norm(r, &(struct vision_norming){
		&t->plain[1], n, t->c.width, t->c.norm_eps, r->wide, r->norm});
}

/* r->norm = norm3(r->norm + positions). */
static enum status add_places(struct vision_run *r, int32_t i, int32_t n)
{
	const struct vision_tower *t = r->t;
	size_t d = (size_t)t->c.width;
	for (int32_t k = 0; k < n; k++)
		vision_tower_place(r, i + k, r->host + (size_t)k * d);
	enum status st = send(r, r->x, (size_t)n * d);
	if (st != OK)
		return st;
	RUN(rms_norm, .n_tok = n, .dim = t->c.width, .eps = (float)t->c.out_eps, .x = r->x,
	    .add = r->norm, .weight = t->ones, .y = r->k);
	return vision_head_norm(r, &(struct vision_norming){
		&t->plain[2], n, t->c.width, t->c.norm_eps, r->x, r->norm});
}

enum status vision_plain_run(struct vision_run *r, float *rows)
{
	const struct vision_tower *t = r->t;
	size_t d = (size_t)t->c.width;
	enum status st = OK;
	for (int32_t i = 0, n; i < r->n && st == OK; i += n) {
		n = MIN(VISION_CHUNK, r->n - i);
		st = embed(r, i, n);
		if (st == OK)
			st = add_places(r, i, n);
		memset(r->host, 0, (size_t)n * d * sizeof *r->host);
		if (st == OK)
			st = send(r, r->x, (size_t)n * d);
		if (st != OK)
			return st;
		RUN(rms_norm, .n_tok = n, .dim = t->c.width, .eps = (float)t->c.out_eps, .x = r->x,
		    .add = r->norm, .weight = t->ones, .y = r->k);
		LINEAR(t->merger[0].down, r->k, r->out, n, .is_f32 = true);
		st = vision_head_fetch(r, n, &rows);
	}
	return st;
}
