/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for int4 weights by four lanes a row: linear_quad_sum.h.
 */
#include <stdio.h>

#include "backend/hip_linear.h"
#include "base/alloc.h"
#include "kernels/linear_int4.h"

static const struct quad_axes axes[] = {
#define QUAD(name, ...) {#name, __VA_ARGS__},
#include "kernels/linear_quad.def"
#undef QUAD
};

int hip_linear_quad_count(void)
{
	return (int)ARRAY_LEN(axes);
}

const struct quad_axes *hip_linear_quad_axes(int i)
{
	return &axes[i];
}

bool hip_linear_quad_takes(const struct quad_axes *x, const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	return hip_linear_is_int4(a) && first->k % QUAD_STEP == 0 && first->group % 32 == 0 &&
	       QUAD_LDS(1, first->k, x->split, x->rows) <= LINEAR_INT4_LDS;
}

int hip_linear_quad_guess(const struct linear_args *a, int32_t n)
{
	enum { ONE, FOUR, EIGHT, SIXTEEN };
	int32_t k = a->out[0].w->k;
	int i = n >= 16384 ? ONE : k >= 8192 ? EIGHT : n * (int64_t)k <= 20 << 20 && k >= 4096
			   ? SIXTEEN : FOUR;
	return hip_linear_quad_takes(&axes[i], a) ? i : -1;
}

/* The parts, and whose workgroups are whose. */
static struct linear_int4_args args_of(const struct quad_axes *x, const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	struct linear_int4_args r = {.x = a->x, .k = first->k,
				     .n_groups = first->k / first->group,
				     .group_shift = 31, .is_pair = a->silu};
	if (first->group != first->k)
		r.group_shift = __builtin_ctz((unsigned)first->group);
	int32_t rows = x->rows * (a->silu ? QUAD_ROWS / 2 : QUAD_ROWS);
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++) {
		r.part[i].first_group = INT32_MAX;
		if (i >= a->n_out)
			continue;
		const struct linear_out *o = &a->out[i];
		bool has_groups = i == 0 || !a->silu;
		r.part[i] = (struct linear_int4_part){
			.q = o->w->q, .scales = o->w->scales,
			.zero_points = o->w->zero_points, .bias = o->bias, .y = o->y,
			.n = o->w->n, .pitch = (int32_t)(hip_pitch(o->w) / 4),
			.first_group = has_groups ? r.grid : INT32_MAX,
			.store = hip_linear_store(o),
			.is_bf16 = o->w->scale_type == DTYPE_BF16};
		r.grid += has_groups ? hip_over(o->w->n, rows) : 0;
	}
	return r;
}

/* On to the next m tokens. */
static void advance(struct linear_int4_args *r, int32_t m)
{
	r->x += m * r->k;
	r->norm_x = r->norm_x ? r->norm_x + m * r->k : NULL;
	r->norm_y = r->norm_y ? r->norm_y + m * r->k : NULL;
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++) {
		struct linear_int4_part *p = &r->part[i];
		size_t size = p->store == LINEAR_TO_F16 ? 2 : 4;
		if (p->y)
			p->y = (char *)p->y + (size_t)m * (size_t)p->n * size;
	}
}

enum status hip_linear_quad(struct hip *h, const struct quad_axes *x,
			    const struct linear_args *a)
{
	struct linear_int4_args r = args_of(x, a);
	const struct weight *w = a->out[0].w;
	const char *kind = w->zero_points ? "_zero" : w->group == 32 ? "" : "_any";
	const struct rms_norm_args *n = a->norm;
	/* Each workgroup normalises for itself: what many tokens have in a launch. */
	bool is_fused = n && !n->add && a->n_tok <= LINEAR_QUAD_NORM_TOK;
	enum status st = n && !is_fused ? hip_rms_norm(&h->base, n) : OK;
	if (is_fused) {
		r.norm_x = n->x;
		r.norm_weight = n->weight;
		r.norm_y = n->y;
		r.norm_eps = n->eps;
	}
	for (int32_t t = 0; t < a->n_tok && st == OK; t += r.n_tok) {
		int32_t m = 1, lds;
		while (m < a->n_tok - t && m < LINEAR_INT4_MAX_TOK &&
		       QUAD_LDS(2 * m, r.k, x->split, x->rows) <= LINEAR_INT4_LDS)
			m *= 2;
		char name[80];
		lds = QUAD_LDS(m, r.k, x->split, x->rows);
		r.n_tok = MIN(m, a->n_tok - t);
		snprintf(name, sizeof name, "linear_quad_%s_m%d%s_kernel", x->name, m, kind);
		st = LAUNCH(h, name, ((struct hip_grid){r.grid, 1, 32 * x->split * x->rows,
							lds}), ARG(r));
		advance(&r, r.n_tok);
	}
	return st;
}
