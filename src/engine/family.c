/* SPDX-License-Identifier: Apache-2.0
 *
 * What the settings say of layers, for the files of families.
 */
#include "engine/family.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/rope.h"

struct attention family_attention(const struct graph *g, int i)
{
	const struct model_config *c = g->c;
	bool is_own = i < c->n_layers; /* else it is the MTP layer */
	int r = c->rope_of && is_own ? c->rope_of[i] : 0;
	bool is_rotated = !c->is_unrotated || !is_own || !c->is_unrotated[i];
	int32_t dim = model_head_dim(c, i);
	return (struct attention){
		.n_heads = model_heads(c, i), .n_kv_heads = model_kv_heads(c, i), .head_dim = dim,
		.has_v = true, .has_bias = c->qkv_bias, .has_o_bias = c->o_bias,
		.has_attn_temp = true, .window = model_has_window(c, i) ? c->window : 0,
		.kv_layer = i, .i_rope = r, .n_freq = is_rotated ? model_n_rot(c, r) / 2 : 0,
		.sharpness = is_rotated ? rope_sharpness(&c->ropes[r]) : 1,
		.per = c->query_scalar > 0 ? (double)c->query_scalar : dim};
}

struct mlp family_mlp(const struct graph *g)
{
	const struct model_config *c = g->c;
	return (struct mlp){.dim = c->ffn_dim, .name = "mlp", .has_bias = c->mlp_bias,
			    .act = c->act};
}

struct delta family_delta(const struct graph *g, enum delta_kind kind)
{
	const struct model_config *c = g->c;
	bool is_mamba = kind == DELTA_MAMBA;
	return (struct delta){
		.kind = kind, .n_k_heads = c->delta.k_heads, .n_v_heads = c->delta.v_heads,
		.k_dim = c->delta.k_dim, .v_dim = c->delta.v_dim, .conv_width = c->delta.conv_width,
		.heads_tiled = c->delta.heads_tiled, .has_conv_bias = c->delta.has_conv_bias,
		.skips_norm = c->delta.skips_norm, .by = c->delta.by,
		.is_full = c->delta.is_full, .g_min = c->delta.g_min,
		.gate_eps = is_mamba ? c->delta.gate_eps : c->norm_eps};
}

static bool has_experts(const struct model_config *c, int i)
{
	if (c->n_experts == 0 || (i + 1) % c->sparse_step != 0)
		return false;
	for (int32_t k = 0; k < c->n_dense_layers; k++)
		if (c->dense_layers[k] == i)
			return false;
	return true;
}

struct moe family_experts(const struct graph *g, int i)
{
	const struct model_config *c = g->c;
	if (!has_experts(c, i))
		return (struct moe){.n = 0};
	return (struct moe){
		.n = c->n_experts, .n_used = c->n_experts_used, .dim = c->expert_dim,
		.router_name = "mlp.gate", .act = c->act, .norm_topk = c->norm_topk,
		.is_sigmoid = c->n_groups > 0, .has_choice_bias = c->n_groups > 0,
		.n_groups = c->n_groups, .n_groups_used = c->n_groups_used,
		.routed_scale = c->routed_scale};
}

struct moe family_experts_and(const struct graph *g, int i, const char *name)
{
	struct moe m = family_experts(g, i);
	if (m.n)
		m.shared = (struct mlp){.dim = g->c->shared_dim, .name = name, .act = m.act};
	return m;
}

/* min(silu(g), limit) max(min(u, limit), -limit). silu rises above 0, so it is at most `limit`
 * where g is at most the g for which it is. There g (1 + exp(-g)) is `limit`, and silu is less than
 * g by at most 0.28. */
struct activation family_limited(const float *limits, int i)
{
	double limit = limits ? (double)limits[i] : 0, low = limit, high = limit + 0.28;
	if (limit == 0)
		return (struct activation){.kind = ACT_SILU};
	for (int n = 0; n < 60; n++) {
		double mid = (low + high) / 2;
		*(mid / (1 + exp(-mid)) < limit ? &low : &high) = mid;
	}
	return (struct activation){.kind = ACT_CLIPPED, .limit = (float)limit,
				   .gate_limit = (float)low};
}

struct moe family_limited_experts(const struct graph *g, int i, const char *name)
{
	struct moe m = family_experts_and(g, i, name);
	m.act = family_limited(g->c->limits.routed, i);
	m.shared.act = family_limited(g->c->limits.others, i);
	/* The two run together if they have one activation. */
	m.shared_is_apart = m.act.limit != m.shared.act.limit;
	return m;
}

enum status family_feed(struct graph *g, const struct layer *l, const struct graph_step *s,
			struct fail *fail)
{
	const struct rms_norm_args norm = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	if (!l->experts.n)
		return mlp_run(g, l, s, &(struct mlp_run){.m = &l->mlp, .norm = &norm}, fail);
	PART(moe_run, .norm = &norm);
	if (l->experts.shared_is_apart)
		PART(mlp_run, .m = &l->experts.shared, .is_shared = true);
	return OK;
}
