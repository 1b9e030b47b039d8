/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over keys and values of heads. Letters as in kernels/README.md. Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

/* Which norms heads of q and k have. HEADS: each head, with weights that all heads share.
 * TOGETHER: all heads as one row. EACH: layer norms, each head with weights of its own. ONES:
 * each head, without weights. */
enum attention_norms { HEADS_PLAIN, HEADS_NORM, HEADS_TOGETHER, HEADS_EACH, HEADS_ONES };

/* Attention of one layer. A family says the first part; the rest is loaded. */
struct attention {
	int32_t n_heads, n_kv_heads, head_dim; /* H, G, K; n_heads 0: the layer has none */
	enum attention_norms norms;
	bool is_gated;            /* q_proj makes each head's gate behind its q */
	/* > 0: g_proj makes a gate for each so many channels of the output. The layer has k and v
	 * of its own. */
	int32_t gate_span;
	bool gate_is_softplus;    /* it multiplies by log(1 + exp(gate)), else by sigmoid(gate) */
	bool has_v;               /* false: v is k before its norm */
	bool norms_values;        /* v goes through a norm */
	bool has_bias, has_o_bias; /* of q, k and v, and of o; files may lack some of them */
	bool has_sinks;
	bool has_attn_temp;       /* queries at late positions are scaled up (rope.h) */
	bool is_chunked;          /* a token sees those from the last multiple of `window` on */
	int32_t window;           /* tokens it sees; 0: all */
	int32_t in_dim;           /* numbers of its input; 0: D */
	int32_t kv_layer;         /* layer whose keys and values it reads: itself, or one before */
	int32_t i_rope, n_freq;   /* rope of the graph, and its pairs of a head; 0: no rotation */
	double sharpness;         /* factor of cos and sin (rope.h) */
	double per;               /* q . k is divided by its root */

	const float *rope; /* angles of the step: one of graph.rope */
	float scale;       /* factor of q . k */
	const float *q_norm, *k_norm;
	const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL: none */
	const float *sinks;
	struct weight q, k, v, o, gate;
};

struct attend_scratch {
	void *q, *k, *v, *y;                /* (T, H or G, K) act */
	void *q_gate;                       /* (T, H, 2 K) act: q and its gate; or gates alone */
	/* (T, H or G, K): q, k and v before norms that are operations of their own */
	float *q_wide, *k_wide, *v_wide;
	const float *ones;                  /* (K) ones, for norms that have no weights */
};

enum status attend_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status attend_alloc(struct graph *g, struct fail *fail) MUST_USE;

/* q (T, H, K), k and v (T, G, K) = W n + bias. A layer that reads another's cache makes q
 * alone. */
struct attend_project {
	const struct rms_norm_args *norm; /* makes n = g->n first; NULL: it is made */
	const void *in;                   /* (T, in_dim) act, in place of n; NULL: n */
};
enum status attend_project(struct graph *g, const struct layer *l,
			      const struct graph_step *s, const struct attend_project *x,
			      struct fail *fail) MUST_USE;

/* y (T, H, K) = attention of q to the cache, once k and v are in it. Before, heads of q and k
 * are normalised, if weights are given, and rotated. */
struct attend_see {
	const float *q_norm, *k_norm;
	bool norm_after_rope;        /* the norms' weights multiply after the rotation */
	const struct indexer *index; /* chooses what is seen; NULL: all is */
};
enum status attend_see(struct graph *g, const struct layer *l, const struct graph_step *s,
			  const struct attend_see *x, struct fail *fail) MUST_USE;

/* y *= sigmoid(gate), where q came with a gate; or as gate_span says. */
enum status attend_gate(struct graph *g, const struct layer *l, const struct graph_step *s,
			   struct fail *fail) MUST_USE;

/* x += Wo y + bias, or x += norm(Wo y + bias). */
struct attend_out {
	const float *post;                    /* the norm's weights; NULL: no norm */
	const struct moe_router_args *next;   /* as graph_add's */
};
enum status attend_out(struct graph *g, const struct layer *l, const struct graph_step *s,
			  const struct attend_out *x, struct fail *fail) MUST_USE;
