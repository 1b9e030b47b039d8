/* SPDX-License-Identifier: Apache-2.0
 *
 * A product of one token and the router that reads it next, in one launch: moe_route.hip.
 * Experts are chosen there, and hip_moe_router finds its work done.
 */
#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"

static int32_t lds_bytes(const struct hip_linear_shape *s, const struct moe_router_args *r)
{
	return MAX(s->lds_bytes, MOE_ROUTE_LDS(r->router->n, r->n_used));
}

bool hip_route_takes(const struct linear_args *a, int i)
{
	struct hip_linear_shape s = hip_linear_int4_shape(a, i);
	const struct linear_out *o = &a->out[0];
	bool has_groups = a->next && a->next->is_sigmoid &&
			  a->next->n_groups_used < a->next->n_groups;
	return a->next && a->n_tok == 1 && a->n_out == 1 && !a->norm && !a->act && o->adds &&
	       hip_moe_route_takes(a->next) && o->y == a->next->norm->x &&
	       o->w->n == a->next->router->k && o->w->n % s.rows == 0 &&
	       !has_groups && lds_bytes(&s, a->next) <= LINEAR_INT4_LDS;
}

enum status hip_route(struct hip *h, const struct linear_args *a, int i)
{
	struct hip_linear_shape s = hip_linear_int4_shape(a, i);
	const struct moe_router_args *next = a->next;
	struct linear_int4_args r = hip_linear_int4_args(h, a, s.rows, false);
	struct weight_view router = hip_view(next->router);
	struct moe_router_launch l = hip_moe_router_launch(h, next);
	struct hip_grid g = {r.grid, 1, s.n_threads, lds_bytes(&s, next)};
	r.n_tok = 1;
	h->routed = next->router;
	l.sums = h->router_sums;
	return LAUNCH(h, hip_kernel(KERNEL_LINEAR_INT4, PROFILE_COUNT, "moe_route_%s%s_kernel",
				    s.name, s.kind), g, ARG(r), ARG(router), ARG(l));
}
