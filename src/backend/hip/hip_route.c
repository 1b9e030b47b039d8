/* SPDX-License-Identifier: Apache-2.0
 *
 * A product of one token and the router that reads it next, in one launch: moe_route.hip
 * and moe_route_rows.hip. Experts are chosen there, and hip_moe_router finds its work done.
 */
#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"

static int32_t lds_bytes(const struct hip_linear_shape *s, const struct moe_router_args *r)
{
	return MAX(s->lds_bytes, MOE_ROUTE_LDS(r->router->n, r->n_used));
}

/* True if moe_route_rows.hip has the format. */
static bool has_rows(enum quant q)
{
	static const enum quant formats[] = {QUANT_Q4_K, QUANT_Q5_K, QUANT_Q6_K, QUANT_IQ4_XS,
					     QUANT_INT8, QUANT_MXFP4, QUANT_NVFP4, QUANT_FP8,
					     QUANT_BF16};
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (formats[i] == q)
			return true;
	return false;
}

/* True if the kernel of this shape can do a and the router behind it. */
static bool fits(const struct hip_linear_shape *s, const struct linear_args *a)
{
	const struct linear_out *o = &a->out[0];
	return o->w->n % s->rows == 0 && lds_bytes(s, a->next) <= LINEAR_INT4_LDS;
}

bool hip_route_takes(const struct hip *h, const struct linear_args *a, int i)
{
	const struct linear_out *o = &a->out[0];
	bool has_groups = a->next && a->next->is_sigmoid &&
			  a->next->n_groups_used < a->next->n_groups;
	if (!a->next || a->n_tok != 1 || a->n_out != 1 || a->norm || a->act || !o->adds ||
	    has_groups || !hip_moe_route_takes(a->next) || o->y != a->next->norm->x ||
	    o->w->n != a->next->router->k)
		return false;
	struct linear_rows_args r;
	struct hip_linear_shape s;
	if (i >= 0) {
		s = hip_linear_int4_shape(a, i);
		return fits(&s, a);
	}
	if (!has_rows(o->w->quant) || !hip_linear_rows_takes(a))
		return false;
	s = hip_linear_rows_shape(h, a, &r);
	return fits(&s, a) && s.n_threads == 32 * LINEAR_ROWS_WAVES &&
	       r.k <= LINEAR_ROWS_SLICE(1);
}

static enum status launch(struct hip *h, const struct linear_args *a, struct hip_kernel kernel,
			  struct hip_grid g, struct hip_arg product)
{
	const struct moe_router_args *next = a->next;
	struct weight_view router = hip_view(next->router);
	struct moe_router_launch l = hip_moe_router_launch(h, next);
	h->routed = next->router;
	l.sums = h->router_sums;
	return LAUNCH(h, kernel, g, product, ARG(router), ARG(l));
}

enum status hip_route(struct hip *h, const struct linear_args *a, int i)
{
	bool is_int4 = i >= 0;
	struct linear_rows_args rows = {0};
	struct linear_int4_args words = {0};
	struct hip_linear_shape s = is_int4 ? hip_linear_int4_shape(a, i)
					    : hip_linear_rows_shape(h, a, &rows);
	enum hip_kernel_kind kind = is_int4 ? KERNEL_LINEAR_INT4
				    : quant_block(a->out[0].w->quant) ? KERNEL_LINEAR_BLOCKS
								      : KERNEL_LINEAR_ROWS;
	struct hip_grid g = {rows.grid, 1, s.n_threads, lds_bytes(&s, a->next)};
	if (is_int4) {
		words = hip_linear_int4_args(h, a, s.rows, false);
		words.n_tok = 1;
		g.x = words.grid;
	}
	return launch(h, a, hip_kernel(kind, PROFILE_COUNT, "moe_route_%s%s_kernel", s.name,
				       s.kind),
		      g, is_int4 ? (struct hip_arg)ARG(words) : (struct hip_arg)ARG(rows));
}
