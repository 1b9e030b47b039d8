/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of images (struct engine_image) come from the host with the step that has them, which
 * is never recorded.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"
#include "engine/graph_images.h"

bool graph_images_has_axes(const struct graph *g)
{
	return g->limits.image_rules && !g->limits.image_rules->is_flat;
}

bool graph_images_is_bidirectional(const struct graph *g)
{
	return g->limits.image_rules && g->limits.image_rules->seen != IMAGE_CAUSAL;
}

void graph_images_see(const struct graph *g, const struct graph_step *s,
		     struct attention_args *a)
{
	bool is_wide = a->window == 0;
	if (!graph_images_is_bidirectional(g) || s->b->n_views == 0 ||
	    (is_wide && g->limits.image_rules->seen == IMAGE_BIDIRECTIONAL_LOCAL))
		return;
	a->last_seen = s->ids.last_seen;
}

enum status graph_images_alloc(struct graph *g, struct fail *fail)
{
	size_t t = (size_t)g->limits.max_batch_tok, d = (size_t)g->c->d_model;
	size_t act = dtype_bytes(g->b->act_type);
	size_t n_deep = g->limits.image_rules ? (size_t)g->limits.image_rules->n_deep : 0;
	const struct graph_want wanted[] = {
		{&g->images.deep, n_deep ? t * d * act : 1},
		{&g->images.rope_axis, (size_t)g->c->n_rot / 2 * sizeof *g->images.rope_axis},
	};
	size_t n_wanted = ARRAY_LEN(wanted) - !graph_images_has_axes(g);
	if (!g->limits.image_rules)
		return OK;
	if (!g->measured && !(g->images.deep_host = malloc(n_deep * t * d * act + 1)))
		return fail_set(fail, E_NOMEM, "no memory for rows of images");
	return graph_take_all(g, wanted, n_wanted, fail);
}

enum status graph_images_begin(struct graph *g)
{
	int32_t n = g->c->n_rot / 2;
	const struct engine_image_rules *s = g->limits.image_rules;
	if (!graph_images_has_axes(g))
		return OK;
	int32_t *axis = xcalloc((size_t)n, sizeof *axis);
	for (int32_t i = 0; i < n; i++)
		axis[i] = i % 3 == 1 && i < 3 * s->n_height  ? 1
			  : i % 3 == 2 && i < 3 * s->n_width ? 2
							     : 0;
	enum status st = g->b->ops->upload(g->b, g->images.rope_axis, axis,
					   (size_t)n * sizeof *axis);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, NULL);
	free(axis);
	return st;
}

enum status graph_images_embed(struct graph *g, const struct graph_step *s, float *x,
			       struct fail *fail)
{
	size_t d = (size_t)g->c->d_model;
	int32_t t = s->b->n_tok;
	bool has_rows = !g->limits.target || g->c->eagle.dim == g->c->d_model;
	enum status st = OK;
	RUN(embed_rows, .n_tok = t, .table = &g->embed, .token = s->ids.token, .x = x,
	    .scale = g->c->embed_scale);
	for (int i = 0; has_rows && i < s->b->n_views && st == OK; i++) {
		const struct engine_view *v = &s->b->views[i];
		st = g->b->ops->upload(g->b, x + (size_t)v->tok * d,
				       v->image->rows + (size_t)v->first * d,
				       (size_t)v->n * d * sizeof *x);
	}
	return st == OK ? OK : fail_set(fail, st, "an image's rows do not reach %s",
					g->b->device);
}

/* x += rows, by a norm that first adds them. The normalised result is not used. */
static enum status add_view(struct graph *g, const struct engine_view *v, int i,
			    struct fail *fail)
{
	size_t d = (size_t)g->c->d_model, act = dtype_bytes(g->b->act_type);
	size_t at = (size_t)v->tok * d, n = (size_t)v->n * d;
	size_t level = (size_t)i * (size_t)g->limits.max_batch_tok * d;
	int32_t t = v->n;
	char *host = (char *)g->images.deep_host + (level + at) * act;
	char *deep = (char *)g->images.deep + at * act;
	const float *rows = v->image->rows +
			    ((size_t)(1 + i) * (size_t)v->image->n_rows *
				     (size_t)v->image->n_cols +
			     (size_t)v->first) * d;
	backend_to_act(g->b, rows, n, host);
	enum status st = g->b->ops->upload(g->b, deep, host, n * act);
	if (st != OK)
		return fail_set(fail, st, "an image's rows do not reach %s", g->b->device);
	RUN(rms_norm, .n_tok = t, .dim = g->c->d_model, .eps = g->c->norm_eps, .x = g->x + at,
	    .add = deep, .weight = g->out_norm, .y = (char *)g->n + at * act);
	return OK;
}

enum status graph_images_add(struct graph *g, const struct graph_step *s, int i,
			    struct fail *fail)
{
	enum status st = OK;
	if (!g->limits.image_rules || i >= g->limits.image_rules->n_deep)
		return OK;
	for (int k = 0; k < s->b->n_views && st == OK; k++)
		if (!s->b->views[k].image->is_sound)
			st = add_view(g, &s->b->views[k], i, fail);
	return st;
}
