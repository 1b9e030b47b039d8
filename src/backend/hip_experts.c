/* SPDX-License-Identifier: Apache-2.0
 *
 * moe_experts: which kernels, and the table in which they find an expert's weights.
 *
 * Everything the backend knows of a layer's experts hangs on struct experts.device: a
 * block on the host, whose `table` is on the device.
 */
#include <stdlib.h>

#include "backend/hip_launch.h"
#include "base/alloc.h"
#include "kernels/moe_launch.h"

_Static_assert((int)MOE_SILU == EXPERTS_SILU && (int)MOE_CLAMPED == EXPERTS_CLAMPED,
	       "kernels count them as the contract does");

enum { WAVES = 4 };

static enum status upload_table(struct hip *h, const struct experts *ex,
				struct hip_experts *x)
{
	size_t n = (size_t)ex->n, n_rows = (n + 1) * MOE_PARTS;
	struct weight_view *host = xcalloc(n_rows, sizeof *host);
	for (size_t e = 0; e < n; e++) {
		host[e * MOE_PARTS + MOE_GATE] = hip_view(&ex->gate[e]);
		host[e * MOE_PARTS + MOE_UP] = hip_view(&ex->up[e]);
		host[e * MOE_PARTS + MOE_DOWN] = hip_view(&ex->down[e]);
	}
	if (ex->shared_gate) {
		host[n * MOE_PARTS + MOE_GATE] = hip_view(ex->shared_gate);
		host[n * MOE_PARTS + MOE_UP] = hip_view(ex->shared_up);
		host[n * MOE_PARTS + MOE_DOWN] = hip_view(ex->shared_down);
	}
	void *table = NULL;
	enum status st = hip_arena_take(h, &h->weights, n_rows * sizeof *host, &table);
	if (st == OK)
		st = hip_upload(&h->base, table, host, n_rows * sizeof *host);
	free(host);
	x->table = table;
	x->n_rows = n_rows;
	return st;
}

enum status hip_load_experts(struct backend *b, struct experts *out, struct fail *fail)
{
	struct hip *h = hip_of(b);
	struct hip_experts *x = xcalloc(1, sizeof *x);
	x->next = h->experts;
	h->experts = x;
	out->device = x;
	for (int32_t e = 0; e < out->n; e++)
		if (out->gate[e].quant != out->gate[0].quant ||
		    out->up[e].quant != out->gate[0].quant ||
		    out->down[e].quant != out->down[0].quant)
			return fail_at(fail, E_UNSUPPORTED, out->gate[e].name,
				       "%s: the HIP backend wants experts of one format",
				       out->gate[e].name ? out->gate[e].name : "experts");
	enum status st = upload_table(h, out, x);
	return st == OK ? OK : fail_set(fail, st, "%.100s: experts: %s", h->base.device,
					h->failure);
}

void hip_experts_destroy(struct hip *h)
{
	while (h->experts) {
		struct hip_experts *x = h->experts;
		h->experts = x->next;
		free(x);
	}
}

static enum status any(struct hip *h, const char *op, const struct weight *w,
		       struct moe_launch l, int32_t n_x, int32_t n_y)
{
	char name[80];
	struct hip_grid g = {hip_over(n_x, WAVES), n_y, 32 * WAVES, 0};
	return LAUNCH(h, hip_kernel_for(name, op, w), g, ARG(l));
}

/* Any shape; as many tokens at a time as a grid may be high. */
static enum status run_any(struct hip *h, const struct weight *up,
			   const struct weight *down, struct moe_launch l)
{
	enum status st = OK;
	int32_t left = l.n_tok, most = 65535 / l.n_used;
	for (; left > 0 && st == OK; left -= l.n_tok) {
		l.n_tok = MIN(left, most);
		st = any(h, "moe_any_up", up, l, l.ffn, l.n_tok * l.n_used);
		if (st == OK)
			st = any(h, "moe_any_down", down, l, l.dim, l.n_tok);
		size_t t = (size_t)l.n_tok, pairs = t * (size_t)l.n_used;
		l.id = l.id ? l.id + pairs : NULL;
		l.weight = l.weight ? l.weight + pairs : NULL;
		l.x += t * (size_t)l.dim;
		l.y += t * (size_t)l.dim;
		l.h += pairs * (size_t)l.ffn;
	}
	return st;
}

static enum status shared_scale(struct hip *h, const struct moe_experts_args *a)
{
	struct weight_view router = hip_view(a->experts->shared_router);
	struct moe_experts_args v = *a;
	char name[80];
	struct hip_grid g = {hip_over(v.n_tok, WAVES), 1, 32 * WAVES, 0};
	return LAUNCH(h, hip_kernel_for(name, "moe_scale", a->experts->shared_router), g,
		      ARG(router), ARG(v.x), ARG(v.n_tok), ARG(v.shared_scale));
}

static enum status run_shared(struct hip *h, const struct moe_experts_args *a,
			      struct moe_launch l)
{
	const struct experts *ex = a->experts;
	l.id = NULL;
	l.n_used = 1;
	l.only = ex->n;
	l.ffn = ex->shared_gate->n;
	l.h = a->shared_h;
	l.act = MOE_SILU;
	l.gate_bias = l.up_bias = l.down_bias = NULL;
	l.weight = ex->shared_router ? a->shared_scale : NULL;
	enum status st = ex->shared_router ? shared_scale(h, a) : OK;
	return st == OK ? run_any(h, ex->shared_gate, ex->shared_down, l) : st;
}

enum status hip_moe_experts(struct backend *b, const struct moe_experts_args *a)
{
	struct hip *h = hip_of(b);
	const struct experts *ex = a->experts;
	const struct hip_experts *x = ex->device;
	struct moe_launch l = {
		.table = x->table, .id = a->id, .weight = a->weight,
		.gate_bias = ex->gate_bias, .up_bias = ex->up_bias,
		.down_bias = ex->down_bias, .x = a->x, .h = a->h, .y = a->y,
		.n_tok = a->n_tok, .n_used = a->n_used, .dim = ex->gate[0].k,
		.ffn = ex->gate[0].n, .act = ex->act, .alpha = ex->alpha,
		.limit = ex->limit};
	enum status st = run_any(h, &ex->gate[0], &ex->down[0], l);
	return st == OK && ex->shared_gate ? run_shared(h, a, l) : st;
}
