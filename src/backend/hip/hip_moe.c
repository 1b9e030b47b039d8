/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixture of experts: the operation moe_router. hip_experts.c has moe_experts.
 */
#include "backend/hip/hip_experts.h"
#include "kernels/linear/linear_int4.h"

/* From so many tokens on the tile kernel takes over, but not from sums of moe_sum.h. The bits are
 * those of moe_router without in_eights. */
enum { TILE_FROM = 2 * MOE_ROUTER_TILE_TOK };

static struct moe_router_rule router_rule(const struct moe_router_args *a)
{
	return (struct moe_router_rule){
		.logit_bias = a->logit_bias, .expert_scale = a->expert_scale,
		.bias = a->bias, .n_groups = a->n_groups,
		.n_groups_used = a->n_groups_used, .scale = a->scale,
		.is_sigmoid = a->is_sigmoid, .is_shifted = a->is_shifted,
		.norm_topk = a->norm_topk, .is_root = a->is_root, .fixed = a->fixed,
		.token = a->token};
}

/* True if few tokens are normalised by the router's kernel, which then sums as moe_sum.h does. */
static bool in_eights(const struct moe_router_args *a)
{
	const struct weight *w = a->router;
	return hip_can_fuse_norm(a->norm) && a->n_tok <= HIP_FEW_TOK &&
	       w->k % 8 == 0 && w->k <= MOE_SUM_MAX_DIM &&
	       (w->quant == QUANT_F16 || w->quant == QUANT_BF16);
}

static bool takes_tile(const struct moe_router_args *a)
{
	const struct weight *w = a->router;
	return a->n_tok >= TILE_FROM && !in_eights(a) && w->k % 8 == 0 &&
	       (w->quant == QUANT_F32 || w->quant == QUANT_F16 || w->quant == QUANT_BF16);
}

static struct hip_grid grid_of(const struct moe_router_args *a)
{
	int32_t n = a->router->n, waves = MOE_ROUTER_WAVES;
	if (takes_tile(a))
		return (struct hip_grid){DIV_UP(n, waves * MOE_ROUTER_TILE_EACH),
					 DIV_UP(a->n_tok, MOE_ROUTER_TILE_TOK), 32 * waves,
					 MOE_ROUTER_TILE_LDS(n, a->n_used)};
	return (struct hip_grid){DIV_UP(n, waves), a->n_tok, 32 * waves,
				 MOE_ROUTER_LDS(a->router->k, in_eights(a) ? 4 : 2, n, a->n_used)};
}

bool hip_moe_route_takes(const struct moe_router_args *a)
{
	return a->n_tok == 1 && in_eights(a) && !a->is_root && !a->fixed;
}

struct moe_router_launch hip_moe_router_launch(const struct hip *h,
					       const struct moe_router_args *a)
{
	return (struct moe_router_launch){
		.x = a->x, .logits = a->logits, .id = a->id, .weight = a->weight,
		.arrived = h->counters, .n_tok = a->n_tok, .n_used = a->n_used,
		.in_eights = in_eights(a),
		.norm = in_eights(a) ? hip_fused_norm(a->norm) : (struct fused_norm){0},
		.rule = router_rule(a)};
}

enum status hip_moe_router(struct backend *b, const struct moe_router_args *a)
{
	struct hip *h = hip_of(b);
	struct weight_view router = hip_view(a->router);
	struct moe_router_launch l = hip_moe_router_launch(h, a);
	struct hip_grid g = grid_of(a);
	bool is_routed = h->routed == a->router && a->n_tok == 1;
	if (is_routed) {
		h->routed = NULL;
		return OK;
	}
	if (a->n_tok > HIP_MAX_TOK)
		return hip_refuse(h, "moe_router of %d tokens", (int)a->n_tok);
	if (g.lds_bytes > LINEAR_INT4_LDS)
		return hip_refuse(h, "moe_router of %d experts at a width of %d",
				  (int)router.n, (int)router.k);
	enum status st = l.in_eights ? OK : hip_fuse_norm(h, a->norm, router.k % 8 == 0, &l.norm);
	return st != OK ? st : LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_ROUTER,
						    "moe_router_%s%s_kernel",
						    takes_tile(a) ? "tile_" : "",
						    quant_name(a->router->quant)), g,
				      ARG(router), ARG(l));
}
