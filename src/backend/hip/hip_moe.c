/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixture of experts: the operation moe_router. hip_experts.c has moe_experts.
 */
#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"

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

static struct hip_grid grid_of(const struct moe_router_args *a)
{
	int32_t n = a->router->n, waves = MOE_ROUTER_WAVES;
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

/* --- prompts: the logits of all tokens, then their experts ----------------------------- */

static struct linear_args logits_of(const struct moe_router_args *a)
{
	return (struct linear_args){.n_tok = a->n_tok, .x = a->x, .n_out = 1,
				    .out = {{.w = a->router, .bias = a->logit_bias,
					     .y = a->logits, .is_f32 = true}}};
}

/* By matrix products, or in float32 by a kernel of its own. */
static bool is_prompt(const struct moe_router_args *a)
{
	struct linear_args l = logits_of(a);
	bool is_f32 = a->router->quant == QUANT_F32 && a->router->k % 8 == 0;
	return a->n_tok > HIP_FEW_TOK && (is_f32 || hip_linear_tile_takes(&l));
}

static enum status prompt_router(struct hip *h, const struct moe_router_args *a,
				 const struct weight_view *router,
				 const struct moe_router_launch *l)
{
	struct linear_args logits = logits_of(a);
	struct hip_grid tiles = {DIV_UP(router->n, MOE_ROUTER_WAVES * MOE_ROUTER_TILE_EACH),
				 DIV_UP(a->n_tok, MOE_ROUTER_TILE_TOK), 32 * MOE_ROUTER_WAVES,
				 MOE_ROUTER_TILE_LDS};
	struct hip_grid each = {a->n_tok, 1, 32, MOE_CHOICE_LDS(router->n, a->n_used)};
	enum status st =
		a->router->quant == QUANT_F32
			? LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_ROUTER,
					       "moe_router_tile_f32_kernel"), tiles,
				 ARG(*router), ARG(*l))
			: hip_linear_tile(h, &logits);
	return st != OK ? st : LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_ROUTER,
						    "moe_choose_kernel"), each,
				      ARG(*router), ARG(*l));
}

/* --- the operation --------------------------------------------------------------------- */

enum status hip_moe_router(struct backend *b, const struct moe_router_args *a)
{
	struct hip *h = hip_of(b);
	struct weight_view router = hip_view(a->router);
	struct moe_router_launch l = hip_moe_router_launch(h, a);
	struct hip_grid g = grid_of(a);
	bool in_two = is_prompt(a);
	bool is_routed = h->routed == a->router && a->n_tok == 1;
	if (is_routed) {
		h->routed = NULL;
		return OK;
	}
	if (a->n_tok > HIP_MAX_TOK)
		return hip_refuse(h, "moe_router of %d tokens", (int)a->n_tok);
	if (!in_two && g.lds_bytes > LINEAR_INT4_LDS)
		return hip_refuse(h, "moe_router of %d experts at a width of %d",
				  (int)router.n, (int)router.k);
	enum status st = l.in_eights ? OK : hip_fuse_norm(h, a->norm, !in_two && router.k % 8 == 0,
							  &l.norm);
	if (st == OK && in_two)
		return prompt_router(h, a, &router, &l);
	return st != OK ? st : LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_ROUTER,
						    "moe_router_%s_kernel",
						    quant_name(a->router->quant)), g,
				      ARG(router), ARG(l));
}
