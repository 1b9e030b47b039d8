/* SPDX-License-Identifier: Apache-2.0
 *
 * A product of one token and the router that reads it next, in one launch: moe_route.hip.
 * With four lanes a row it leaves the logits' sums (h->leaves_sums), and hip_moe_quad goes on.
 * Else experts are chosen, and hip_moe_logits finds its work done.
 */
#include <stdio.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"

static void name_of(const struct hip_linear_shape *s, char out[80])
{
	snprintf(out, 80, "moe_route_%s%s_kernel", s->name, s->kind);
}

static int32_t lds_bytes(const struct hip_linear_shape *s, const struct moe_router_args *r)
{
	return MAX(s->lds_bytes, MOE_ROUTE_LDS(r->router->n, r->n_used));
}

bool hip_route_takes(struct hip *h, const struct linear_args *a, int i)
{
	struct hip_linear_shape s = hip_linear_int4_shape(a, i);
	const struct linear_out *o = &a->out[0];
	char name[80];
	name_of(&s, name);
	/* Kernels with four lanes a row leave the choice to those of experts. */
	bool leaves_sums = hip_linear_int4_is_quad(i);
	bool has_groups = a->next && a->next->is_sigmoid &&
			  a->next->n_groups_used < a->next->n_groups;
	return a->next && a->n_tok == 1 && a->n_out == 1 && !a->norm && !a->act && o->adds &&
	       hip_moe_route_takes(a->next) && o->y == a->next->norm->x &&
	       o->w->n == a->next->router->k && o->w->n % s.rows == 0 &&
	       (leaves_sums ? hip_moe_quad_chooses(h, a->next, a->next_experts)
			    : !has_groups) &&
	       lds_bytes(&s, a->next) <= LINEAR_INT4_LDS && hip_has_kernel(h, name);
}

enum status hip_route(struct hip *h, const struct linear_args *a, int i)
{
	struct hip_linear_shape s = hip_linear_int4_shape(a, i);
	const struct moe_router_args *next = a->next;
	struct linear_int4_args r = hip_linear_int4_args(h, a, s.rows, false, false);
	struct weight_view router = hip_view(next->router);
	struct moe_router_launch l = hip_moe_router_launch(h, next, false);
	struct hip_grid g = {r.grid, 1, s.n_threads, lds_bytes(&s, next)};
	char name[80];
	name_of(&s, name);
	r.n_tok = 1;
	h->routed = next->router;
	l.sums = h->router_sums;
	h->leaves_sums = hip_linear_int4_is_quad(i);
	return LAUNCH(h, name, g, ARG(r), ARG(router), ARG(l));
}

enum status hip_route_drop(struct hip *h)
{
	bool has_sums = h->routed && h->leaves_sums;
	h->routed = NULL;
	if (!has_sums)
		return OK;
	size_t n = MOE_ROUTER_MAX_EXPERTS * sizeof *h->router_sums;
	return hip_check(h, h->api.hipMemsetAsync(h->router_sums, 0, n, h->stream), "clearing");
}
