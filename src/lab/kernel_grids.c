/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/kernel_grids.h"

#include <stdio.h>

#include "base/alloc.h"
#include "lab/null_hip.h"

/* --- launches ------------------------------------------------------------------ */

struct listener {
	kernel_grids_on on;
	void *ctx;
	const struct case_shape *shape;
};

static void on_launch(void *ctx, const struct hip_launch_info *l, bool is_done)
{
	const struct listener *k = ctx;
	if (is_done)
		null_hip_after(l);
	if (is_done)
		k->on(k->ctx, k->shape, l);
}

static enum status run_shape(struct hip *h, const struct kernel_grids_opts *g,
			     struct listener *k, struct fail *fail)
{
	struct case_opts o = {.group = 32, .n_tok = g->n_tok,
			      .depth = MAX(g->depth, g->n_tok), .is_null = true};
	struct kernel_case *c;
	h->on_launch = NULL;
	enum status st = kernel_case_create(&h->base, k->shape, &o, &c, fail);
	if (st != OK)
		return st;
	h->on_launch = on_launch;
	h->on_launch_ctx = k;
	if (kernel_case_queue(c, 0) == E_BACKEND)
		st = fail_set(fail, E_BACKEND, "%s", h->failure);
	kernel_case_destroy(c);
	h->on_launch = NULL;
	return st;
}

static enum status run_model(struct hip *h, const struct kernel_grids_opts *g,
			     struct listener *k, struct fail *fail)
{
	struct case_args all = {.model = g->model, .part = g->part};
	const struct case_shape *s;
	enum status st = OK;
	for (size_t i = 0; (s = case_shape_at(i)) && st == OK; i++) {
		if (!case_args_want(&all, s) || (g->n_formats && !case_shape_takes_formats(s)))
			continue;
		for (int f = 0; f < MAX(g->n_formats, 1) && st == OK; f++) {
			struct case_shape in = *s;
			if (g->n_formats)
				in.quant = g->formats[f];
			k->shape = &in;
			st = run_shape(h, g, k, fail);
		}
	}
	return st;
}

enum status kernel_grids(const struct chip *chip, const struct codeobject *code,
			 const struct kernel_grids_opts *o, kernel_grids_on on, void *ctx,
			 struct fail *fail)
{
	struct backend *b;
	struct listener k = {on, ctx, NULL};
	struct backend_opts bo = {.name = "hip", .hip_api = null_hip_open(chip, code),
				  .kernel_dir = o->kernel_dir};
	enum status st = hip_create(&bo, &b, fail);
	if (st == OK) {
		st = run_model(hip_of(b), o, &k, fail);
		backend_destroy(b);
	}
	null_hip_close();
	return st;
}
