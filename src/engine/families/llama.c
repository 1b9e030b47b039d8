/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama, and what differs from it in its settings alone: Mistral and Ministral 3, Qwen2, Seed-OSS,
 * Granite, Phi-3, SmolLM3, ERNIE 4.5. Some have biases, windows, layers without rotation, or
 * queries that are scaled up at late positions. Sources, of Hugging Face Transformers: the files
 * modeling_*.py of llama, mistral, mistral3, ministral3, qwen2, seed_oss, granite, phi3, smollm3
 * and ernie4_5.
 */
#include "engine/family.h"

static void llama_layer(const struct graph *g, int i, struct layer *l)
{
	l->attention = family_attention(g, i);
	l->mlp = family_mlp(g);
}

static enum status llama_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			     struct fail *fail)
{
	const struct rms_norm_args before = graph_norm(g, l, NORM_MIXER, s->b->n_tok);
	const struct rms_norm_args between = graph_norm(g, l, NORM_MLP, s->b->n_tok);

	/* q (T, H, K), k and v (T, G, K) = W norm(x) + bias */
	PART(attend_project, .norm = &before);
	/* y (T, H, K) = attention; heads of q and k are rotated */
	PART(attend_see);
	/* x (T, D) += Wo y */
	PART(attend_out);
	/* x += Wdown (silu(Wgate norm(x)) * Wup norm(x)) */
	PART(mlp_run, .m = &l->mlp, .norm = &between);
	return OK;
}

const struct family family_llama = {.norms = {TWO_NORMS}, .layer = llama_layer, .run = llama_run};
