/* SPDX-License-Identifier: Apache-2.0
 *
 * Kimi-Linear: Kimi delta attention, and in the layers that the config lists latent attention
 * without rotation. The first layers are dense, the others have grouped experts and a shared one.
 * Ling 3 is the same with rotation, a gate for each head behind latent attention, and decays that
 * have a lower bound. In some layers the activation of its experts has limits. Sources:
 * modeling_kimi_linear.py and modeling_bailing_hybrid.py of Hugging Face Transformers; of the
 * limits bailing_moe_v3.py of vLLM.
 */
#include "engine/family.h"

#include <math.h>

static void kimi_linear_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	if (c->is_linear[i])
		l->delta = family_delta(g, DELTA_KDA);
	else
		l->mla = (struct mla){
			.n_heads = c->n_heads, .q_lora = c->q_lora, .kv_lora = c->mla.kv_lora,
			.nope_dim = c->mla.nope_dim, .rope_dim = c->mla.rope_dim,
			.v_dim = c->mla.v_dim, .eps = c->mla.eps,
			.is_interleaved = c->mla.is_interleaved, .has_gate = c->mla.has_gate,
			.scale = (float)(1 / sqrt(c->head_dim)), .rope_scale = 1};
	l->experts = family_limited_experts(g, i, "mlp.shared_experts");
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status kimi_linear_run(struct graph *g, const struct layer *l,
				   const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);
	const struct moe_router_args *next = moe_follow(g, l) ? &router : NULL;

	if (l->delta.kind == DELTA_KDA) {
		/* x (T, D) += Wout (norm(y) * sigmoid(z)), y (T, H, V) of Kimi delta attention */
		PART_OF(kda_run, delta_run, .norm = &before, .next = next);
	} else {
		/* q (T, H, nope + rope), kv (T, kv_lora + rope), gate (T, H) = W norm(x) */
		PART(mla_project, .norm = &before);
		/* y (T, H, v) = attention to one latent key a token */
		PART(mla_see);
		TRY(mla_gate(g, l, s, fail));
		/* x += Wo (y * sigmoid(gate)) */
		PART(mla_out, .next = next);
	}
	return family_feed(g, l, s, fail);
}

static enum status kimi_linear_replay(struct graph *g, const struct layer *l,
				      const struct engine_replay *r,
				      const struct graph_ids *ids, struct fail *fail)
{
	return l->delta.kind == DELTA_KDA ? kda_replay(g, l, r, ids, fail) : OK;
}

const struct family family_kimi_linear = {
	.norms = {TWO_NORMS}, .layer = kimi_linear_layer, .run = kimi_linear_run,
	.replay = kimi_linear_replay, .no_int8_kv = "it has latent attention (MLA)"};
