/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V3: attention over a compressed key, first layers dense, then grouped experts
 * and a shared one. GLM-4.7-Flash is the same; DeepSeek-V3.2 sees what an indexer chooses. Mistral
 * 4's experts are chosen by a softmax, and its queries are scaled up at late positions. Sources:
 * modeling_deepseek_v3.py, modeling_glm4_moe_lite.py, modeling_deepseek_v32.py and
 * modeling_mistral4.py of Hugging Face Transformers.
 */
#include "engine/family.h"

#include <math.h>

#include "engine/rope.h"

static void deepseek_v3_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	const struct rope *rope = &c->ropes[0];
	/* Two factors sharpen attention. The factor of rope is for the rotated part alone, and
	 * that of mscale_all_dim is for all. */
	double factor = rope_sharpness(rope), all = 1;
	if (rope->kind == ROPE_YARN && rope->mscale_all != 0)
		all = rope_mscale(rope->factor, rope->mscale_all);
	l->mla = (struct mla){
		.n_heads = c->n_heads, .q_lora = c->q_lora, .kv_lora = c->mla.kv_lora,
		.nope_dim = c->mla.nope_dim, .rope_dim = c->mla.rope_dim, .v_dim = c->mla.v_dim,
		.eps = c->mla.eps, .is_interleaved = c->mla.is_interleaved,
		.has_attn_temp = rope_has_attn_temp(c),
		.scale = (float)(all * all / sqrt(c->head_dim)),
		.rope_scale = (float)(factor * factor)};
	if (c->index.heads)
		l->indexer = (struct indexer){
			.n_heads = c->index.heads, .dim = c->index.dim, .budget = c->index.budget,
			.ratio = c->index.ratio, .n_freq = c->n_rot / 2, .q_lora = c->q_lora,
			.eps = c->mla.eps};
	l->experts = family_experts_and(g, i, "mlp.shared_experts");
	if (!l->experts.n)
		l->mlp = family_mlp(g);
}

static enum status deepseek_v3_mix(struct graph *g, const struct layer *l,
				   const struct graph_step *s, struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);
	const struct moe_router_args router = moe_router(g, l, s->b->n_tok, &between);

	/* q (T, H, nope + rope) = Wqb norm(Wqa norm(x)); kv (T, kv_lora + rope) = Wkva norm(x) */
	PART(mla_project, .norm = &before);
	/* y (T, H, v) = attention of all heads to one latent key a token; an indexer may choose */
	PART(mla_see, .index = l->indexer.n_heads ? &l->indexer : NULL);
	/* x (T, D) += Wo y */
	PART(mla_out, .next = moe_follow(g, l) ? &router : NULL);
	return OK;
}

const struct family family_deepseek_v3 = {
	.norms = {TWO_NORMS}, .layer = deepseek_v3_layer, .mix = deepseek_v3_mix,
	.feed = family_feed, .no_int8_kv = "it has latent attention (MLA)"};
