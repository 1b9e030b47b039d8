/* SPDX-License-Identifier: Apache-2.0
 *
 * The last part of a tower, after its layers: turns patches into tokens of the text model's width.
 */
#include <math.h>

#include "base/alloc.h"
#include "vision/vision_tower_private.h"

#define RUN VISION_RUN
#define LINEAR VISION_LINEAR

enum status vision_head_norm(struct vision_run *r, const struct vision_norming *a)
{
	if (a->w->bias)
		RUN(layer_norm, .n_tok = a->n, .dim = a->dim, .eps = (float)a->eps, .x = a->x,
		    .weight = a->w->weight, .bias = a->w->bias, .y = a->y);
	else
		RUN(rms_norm, .n_tok = a->n, .dim = a->dim, .eps = (float)a->eps, .x = a->x,
		    .weight = a->w->weight, .y = a->y);
	return OK;
}

enum status vision_head_fetch(struct vision_run *r, int32_t n, float **io_rows)
{
	struct backend *b = r->t->b;
	size_t size = (size_t)n * (size_t)r->t->c.out_width;
	enum status st = b->ops->download(b, *io_rows, r->out, size * sizeof **io_rows);
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	*io_rows += size;
	return st == OK ? OK : fail_default(r->fail, st);
}

enum status vision_head_merge(struct vision_run *r, const struct vision_merger *m, float *rows)
{
	const struct vision_config *c = &r->t->c;
	int32_t per = c->merge * c->merge, most = VISION_CHUNK / per * per;
	int32_t wide = c->width * per;
	enum status st = OK;
	for (int32_t i = 0, n; i < r->n && st == OK; i += n) {
		n = MIN(most, r->n - i);
		st = vision_head_norm(r, &(struct vision_norming){
			&m->norm, m->is_late ? n / per : n, m->is_late ? wide : c->width,
			c->out_eps, r->x + (size_t)i * (size_t)c->width, r->norm});
		if (st != OK)
			return st;
		LINEAR(m->up, r->norm, r->wide, n / per);
		RUN(gelu, .n_tok = n / per, .dim = wide, .x = r->wide);
		LINEAR(m->down, r->wide, r->out, n / per, .is_f32 = true);
		st = vision_head_fetch(r, n / per, &rows);
	}
	return st;
}

/* Puts the norm of rows [i, i + n) of r->x into r->norm. */
static enum status norm_rows(struct vision_run *r, const struct vision_merger *m, int32_t i,
			     int32_t n)
{
	const struct vision_config *c = &r->t->c;
	return vision_head_norm(r, &(struct vision_norming){
		&m->norm, n, c->width, c->out_eps, r->x + (size_t)i * (size_t)c->width,
		r->norm});
}

/* Pixtral: a norm, one matrix over all neighbours of a token, an mlp. Source:
 * modeling_mistral3.py of Hugging Face Transformers. */
static enum status run_pixtral(struct vision_run *r, float *rows)
{
	const struct vision_config *c = &r->t->c;
	const struct vision_merger *m = &r->t->merger[0];
	int32_t per = c->merge * c->merge, most = VISION_CHUNK / per * per;
	enum status st = OK;
	for (int32_t i = 0, n; i < r->n && st == OK; i += n) {
		n = MIN(most, r->n - i);
		st = norm_rows(r, m, i, n);
		if (st != OK)
			return st;
		LINEAR(m->merge, r->norm, r->k, n / per);
		LINEAR(m->up, r->k, r->wide, n / per);
		RUN(gelu, .n_tok = n / per, .dim = c->out_width, .x = r->wide);
		LINEAR(m->down, r->wide, r->out, n / per, .is_f32 = true);
		st = vision_head_fetch(r, n / per, &rows);
	}
	return st;
}

/* Replaces the first n_rows rows of r->host by means: row i is the mean of `per` rows. */
static void take_means(struct vision_run *r, size_t n_rows, size_t per)
{
	size_t d = (size_t)r->t->c.width;
	for (size_t i = 0; i < n_rows; i++)
		for (size_t k = 0; k < d; k++) {
			const float *from = r->host + i * per * d + k;
			float sum = 0;
			for (size_t p = 0; p < per; p++)
				sum += from[p * d];
			r->host[i * d + k] = sum / (float)per;
		}
}

/* Sends n_rows rows of r->host to r->wide. */
static enum status send_means(struct vision_run *r, size_t n_rows)
{
	struct backend *b = r->t->b;
	size_t n_bytes = n_rows * (size_t)r->t->c.width * sizeof *r->host;
	enum status st = b->ops->upload(b, r->wide, r->host, n_bytes);
	if (st == OK) /* the upload may still be reading r->host */
		st = b->ops->sync(b, r->fail);
	return st;
}

/* Puts into r->wide the mean of each token's neighbours, of rows [i, i + n) of r->x after a
 * norm. */
static enum status pool_siglip(struct vision_run *r, int32_t i, int32_t n)
{
	struct backend *b = r->t->b;
	size_t d = (size_t)r->t->c.width, per = (size_t)(r->t->c.merge * r->t->c.merge);
	size_t n_rows = (size_t)n / per;
	enum status st = norm_rows(r, &r->t->merger[0], i, n);
	if (st == OK)
		st = b->ops->download(b, r->sent, r->norm,
				      (size_t)n * d * dtype_bytes(b->act_type));
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	if (st != OK)
		return st;
	backend_from_act(b, r->sent, (size_t)n * d, r->host);
	take_means(r, n_rows, per);
	return send_means(r, n_rows);
}

/* Puts into r->wide the mean of each token's neighbours, of rows [i, i + n) of r->x, times the
 * root of the width. This may exceed float16's range, so it is in float32. */
static enum status pool_gemma4(struct vision_run *r, int32_t i, int32_t n)
{
	const struct vision_tower *t = r->t;
	struct backend *b = t->b;
	size_t d = (size_t)t->c.width, per = (size_t)(t->c.merge * t->c.merge);
	size_t n_rows = (size_t)n / per;
	float root = (float)sqrt((double)d);
	enum status st = b->ops->download(b, r->host, r->x + (size_t)i * d,
					  (size_t)n * d * sizeof *r->host);
	if (st == OK)
		st = b->ops->sync(b, r->fail);
	if (st != OK)
		return st;
	take_means(r, n_rows, per);
	for (size_t k = 0; k < n_rows * d; k++) {
		float mean = r->host[k] * root;
		r->host[k] = t->shift ? (mean - t->shift[k % d]) * t->factor[k % d] : mean;
	}
	return send_means(r, n_rows);
}

/* Gemma: the mean of a token's neighbours, a norm of the mean, one matrix. Sources:
 * modeling_gemma3.py and modeling_gemma4.py of Hugging Face Transformers. */
static enum status run_pooled(struct vision_run *r, float *rows,
			      enum status (*pool)(struct vision_run *r, int32_t i, int32_t n))
{
	const struct vision_config *c = &r->t->c;
	const struct vision_merger *m = &r->t->merger[0];
	int32_t per = c->merge * c->merge, most = VISION_CHUNK / per * per;
	enum status st = OK;
	for (int32_t i = 0, n; i < r->n && st == OK; i += n) {
		n = MIN(most, r->n - i);
		st = pool(r, i, n);
		if (st == OK)
			st = vision_head_norm(r, &(struct vision_norming){
				&m->mean, n / per, c->width, c->out_eps, r->wide, r->norm});
		if (st != OK)
			return fail_default(r->fail, st);
		LINEAR(m->down, r->norm, r->out, n / per, .is_f32 = true);
		st = vision_head_fetch(r, n / per, &rows);
	}
	return st;
}

enum status vision_head_run(struct vision_run *r, float *rows)
{
	if (r->t->c.kind == VISION_SIGLIP)
		return run_pooled(r, rows, pool_siglip);
	if (r->t->c.kind == VISION_GEMMA4)
		return run_pooled(r, rows, pool_gemma4);
	if (r->t->c.kind == VISION_PIXTRAL)
		return run_pixtral(r, rows);
	return vision_head_merge(r, &r->t->merger[0], rows);
}
