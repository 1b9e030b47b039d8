/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixture of experts: the operation moe_router. hip_experts.c has moe_experts.
 */
#include "backend/hip/hip_experts.h"
#include "kernels/linear/linear_int4.h"

enum { ROUTER_WAVES = 4 };

struct moe_router_rule hip_moe_rule(const struct moe_router_args *a)
{
	return (struct moe_router_rule){
		.logit_bias = a->logit_bias, .bias = a->bias, .n_groups = a->n_groups,
		.n_groups_used = a->n_groups_used, .scale = a->scale,
		.is_sigmoid = a->is_sigmoid, .norm_topk = a->norm_topk};
}

enum status hip_moe_logits(struct hip *h, const struct moe_router_args *a,
			   bool leaves_choice)
{
	struct weight_view router = hip_view(a->router);
	struct moe_router_launch l = {
		.x = a->x, .logits = a->logits, .id = a->id, .weight = a->weight,
		.arrived = h->counters, .n_used = a->n_used, .leaves_choice = leaves_choice,
		.rule = hip_moe_rule(a)};
	struct hip_grid g = {hip_over(router.n, ROUTER_WAVES), a->n_tok, 32 * ROUTER_WAVES,
			     MOE_ROUTER_LDS(router.k, router.n, a->n_used)};
	char name[80];
	if (a->n_tok > HIP_MAX_TOK)
		return hip_refuse(h, "moe_router of %d tokens", (int)a->n_tok);
	if (g.lds_bytes > LINEAR_INT4_LDS)
		return hip_refuse(h, "moe_router of %d experts at a width of %d",
				  (int)router.n, (int)router.k);
	enum status st = hip_fuse_norm(h, a->norm, router.k % 8 == 0, &l.norm);
	return st != OK ? st : LAUNCH(h, hip_kernel_for(name, "moe_router", a->router), g,
				      ARG(router), ARG(l));
}

enum status hip_moe_router(struct backend *b, const struct moe_router_args *a)
{
	return hip_moe_logits(hip_of(b), a, false);
}
