/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen4-Exp (Qwen3.8-Flash-Next). What each part computes, with S = hc_count
 * residual streams x[s] of D numbers, all of which begin as the token's embedding:
 *
 *   n-grams (layers of ple_layer_ids, first of all): parts/ngram.c
 *   a part p, the mixer and then the mlp: parts/streams.c
 *     n[s] = norm(x[s]), each stream with its own weights
 *     u = sigmoid(Wup silu(Wdown n / S));  in = mean_s u[s] n[s]
 *     w = 2 sigmoid(Winject n / S);        x[s] += w[s] p(in)
 *   the mixer is a gated delta net whose gate is sigmoid(z) (parts/delta.c); or attention
 *     with a gate (parts/attend.c) to the positions that an indexer chooses
 *     (parts/indexer.c)
 *   the mlp is experts with a softmax router, and a shared expert (parts/moe.c)
 *   at the end: the same mean once more, with no norm behind it, and the output head
 *
 * Parts have no norms of their own. The MTP layer (mtp_streams.c) is one of attention, without
 * n-grams. The vision tower is Qwen3-VL's without DeepStack (vision).
 *
 * Source: modeling_qwen4_exp.py of Hugging Face Transformers.
 */
#include "engine/family.h"

static void qwen4_model(struct graph *g)
{
	const struct model_config *c = g->c;
	g->streams.count = c->streams.count;
	g->streams.rank = c->streams.rank;
	g->ngrams = (struct ngram_scratch){
		.n_tables = c->ngram.n_tables, .size = c->ngram.size, .n_heads = c->ngram.heads,
		.dim = c->ngram.dim, .vocab = c->ngram.vocab, .seed = c->ngram.seed,
		.eos = c->ngram.eos, .n_taps = c->ngram.taps, .factors = c->ngram.factors,
		.sizes = c->ngram.sizes};
}

static bool has_indexer(const struct graph *g, int i)
{
	return graph_layer_has(g, i, "self_attn.indexer.q_layernorm.weight");
}

static void qwen4_layer(const struct graph *g, int i, struct layer *l)
{
	const struct model_config *c = g->c;
	bool is_own = i < c->n_layers; /* else it is the MTP layer */
	if (is_own && c->is_linear[i]) {
		l->delta = family_delta(g, DELTA_NET);
		l->delta.is_sigmoid = c->delta.sigmoid_gate;
	} else {
		l->attention = family_attention(g, i);
		l->attention.norms = HEADS_NORM;
		l->attention.is_gated = true;
		if (is_own || has_indexer(g, i))
			l->indexer = (struct indexer){
				.n_heads = c->index.heads, .dim = c->index.dim,
				.budget = c->index.budget, .ratio = c->index.ratio,
				.n_freq = c->n_rot / 2, .eps = c->norm_eps};
	}
	l->experts = family_experts_and(g, i, "mlp.shared_expert");
	l->experts.shared_router = "mlp.shared_expert_gate";
	l->experts.is_hidden = true;
	if (is_own && c->ngram.n_tables && c->ngram.of[i] >= 0)
		l->ngram = (struct ngram){.is_here = true, .i_table = c->ngram.of[i]};
}

static enum status qwen4_mix(struct graph *g, const struct layer *l, const struct graph_step *s,
			     struct fail *fail)
{
	const struct attention *a = &l->attention;
	const void *add = NULL;

	/* the streams (T, S, D) += embeddings of n-grams */
	if (l->ngram.is_here)
		PART(ngram_run, .out_add = &add);
	/* n (T, D) = the gated mean of the streams; x (T, D) = 0 */
	PART(streams_enter, .part = STREAMS_MIXER, .add = add);
	if (l->delta.kind == DELTA_NET) {
		/* x += Wout (norm(y) * sigmoid(z)), y (T, Hv, V) of a gated delta net */
		PART(delta_run);
	} else {
		/* x += Wo (attention(q, chosen k and v) * sigmoid(gate)), of n */
		PART(attend_project);
		PART(attend_see, .q_norm = a->q_norm, .k_norm = a->k_norm,
		     .index = l->indexer.n_heads ? &l->indexer : NULL);
		TRY(attend_gate(g, l, s, fail));
		PART(attend_out);
	}
	/* each stream += its weight times x */
	return streams_leave(g, s, fail);
}

static enum status qwen4_feed(struct graph *g, const struct layer *l, const struct graph_step *s,
			      struct fail *fail)
{
	PART(streams_enter, .part = STREAMS_MLP);
	/* x += the chosen experts by their weights, and the shared one times sigmoid(w n) */
	PART(moe_run);
	return streams_leave(g, s, fail);
}

static enum status qwen4_replay(struct graph *g, const struct layer *l,
				const struct engine_replay *r,
				const struct graph_ids *ids, struct fail *fail)
{
	if (l->delta.kind == DELTA_NET)
		TRY(delta_replay(g, l, r, ids, fail));
	return l->ngram.is_here ? ngram_replay(g, l, r, ids, fail) : OK;
}

const struct family family_qwen4 = {
	.model = qwen4_model, .layer = qwen4_layer, .begin = streams_begin, .mix = qwen4_mix,
	.feed = qwen4_feed, .end = streams_end,
	.replay = qwen4_replay, .no_int8_kv = "it has sparse attention with an indexer"};
