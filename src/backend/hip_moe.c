/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixture of experts: moe_router. hip_experts.c has the experts.
 */
#include "backend/hip_launch.h"
#include "kernels/moe_router_launch.h"

enum { ROUTER_WAVES = 4 };

enum status hip_moe_router(struct backend *b, const struct moe_router_args *a)
{
	struct hip *h = hip_of(b);
	struct moe_router_args v = *a;
	struct weight_view router = hip_view(a->router);
	uint32_t norm = a->norm_topk;
	struct hip_grid g = {hip_over(router.n, ROUTER_WAVES), v.n_tok,
			     32 * ROUTER_WAVES, 2 * router.n * 4};
	struct moe_router_rule rule = {
		.logit_bias = a->logit_bias, .bias = a->bias, .n_groups = a->n_groups,
		.n_groups_used = a->n_groups_used, .scale = a->scale,
		.is_sigmoid = a->is_sigmoid};
	char name[80];
	if (v.n_tok > HIP_MAX_TOK)
		return hip_refuse(h, "moe_router of %d tokens", (int)v.n_tok);
	enum status st = a->norm ? hip_rms_norm(b, a->norm) : OK;
	return st != OK ? st : LAUNCH(h, hip_kernel_for(name, "moe_router", a->router), g, ARG(router),
		      ARG(v.n_used), ARG(norm), ARG(v.x), ARG(v.logits), ARG(v.id),
		      ARG(v.weight), ARG(h->counters), ARG(rule));
}
