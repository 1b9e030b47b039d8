/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers with a recurrent state: gated delta nets (delta.c), Kimi delta attention (kda.c), state
 * spaces of Mamba-2 (mamba.c) and short convolutions (conv.c). Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

enum delta_kind { DELTA_NONE, DELTA_NET, DELTA_KDA, DELTA_MAMBA, DELTA_CONV };

/* One of them. A family says the first part; the rest is loaded. For Mamba-2, q is C, k is B, v
 * is x. */
struct delta {
	enum delta_kind kind;
	int32_t n_k_heads, n_v_heads, k_dim, v_dim; /* Hk, Hv, K, V; DELTA_CONV: 0 */
	int32_t conv_width;      /* W */
	bool heads_tiled;        /* value head h uses key head h % Hk (else h / ratio) */
	bool is_sigmoid;         /* the gate is sigmoid(z) instead of silu(z) */
	bool may_sharpen;        /* its norm is an operation of its own (delta.c) */
	bool has_conv_bias;
	bool skips_norm;         /* for Mamba-2 only: y is gated, and gets no norm */
	struct delta_scales by;  /* for Mamba-2 only */
	bool is_full;            /* DELTA_KDA: a and z are one projection each */
	float g_min;             /* DELTA_KDA: lower bound of a decay's logarithm; 0: none */
	float gate_eps;          /* of the norm of y */

	bool is_fused;              /* true: the checkpoint has in_proj_qkvz */
	bool is_sharp;              /* q, k, v are of an input that is not rounded */
	bool ba_fused;              /* true: it has in_proj_ba, which is in b */
	struct weight qkv, z, b, a; /* fused: qkv is qkvz and b is ba */
	struct weight k, v;         /* DELTA_KDA, where qkv is q */
	struct weight a_low, z_low; /* DELTA_KDA, not is_full: they make the inputs of a and z */
	struct weight out;
	const float *conv;          /* (C, W) */
	const float *conv_bias;     /* (C), or NULL */
	const float *skip;          /* (Hv), for Mamba-2 only */
	const float *decay, *dt_bias, *norm;
	float *conv_state, *state;  /* (n_states, ...) */
	size_t conv_bytes, state_bytes; /* of one state */
	/* What the projections of a step with drafts leave, for replay: as delta_scratch's,
	 * with T = ENGINE_DRAFT_TOK. */
	void *kept_qkvz;
	float *kept_ba;
	float *kept_sums;
};

struct delta_scratch {
	void *qkvz;  /* (T, C + Hv V) act; split: qkv (T, C), then z (T, Hv V) */
	float *ba;   /* (T, 2 Hv) f32; split: b (T, Hv), then a; DELTA_KDA: a (T, Hv K) */
	void *mixed; /* (T, C) act */
	void *y;     /* (T, Hv, V) act */
	/* For the sharp layer. pair: its norm (T, D) act, and then what rounding took from it
	 * (rms_norm.h). sums: the products of both with qkv (2 T, N). */
	void *pair;
	float *sums;
	void *a_low, *z_low; /* (T, K), (T, V) act: DELTA_KDA */
};

/* Channels of the convolution: queries, keys and values. */
static inline int32_t delta_channels(const struct delta *a)
{
	return 2 * a->n_k_heads * a->k_dim + a->n_v_heads * a->v_dim;
}

/* Channels of a: what a state forgets. */
static inline int32_t delta_steps(const struct delta *a)
{
	return a->kind == DELTA_KDA ? a->n_v_heads * a->k_dim : a->n_v_heads;
}

enum status delta_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status kda_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status mamba_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status conv_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status delta_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status kda_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status mamba_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status conv_alloc(struct graph *g, struct fail *fail) MUST_USE;

/* x += all of it. */
struct delta_run {
	const struct rms_norm_args *norm;   /* makes n = g->n first; NULL: it is made */
	const struct moe_router_args *next; /* as graph_add's */
};
enum status delta_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct delta_run *x, struct fail *fail) MUST_USE;
enum status kda_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct delta_run *x, struct fail *fail) MUST_USE;
enum status mamba_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct delta_run *x, struct fail *fail) MUST_USE;
enum status conv_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		     const struct delta_run *x, struct fail *fail) MUST_USE;

/* engine_graph.replay in a layer; ids: first_tok and states of that one sequence. */
enum status delta_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
			 const struct graph_ids *ids, struct fail *fail) MUST_USE;
enum status kda_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
		       const struct graph_ids *ids, struct fail *fail) MUST_USE;
enum status mamba_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
			 const struct graph_ids *ids, struct fail *fail) MUST_USE;

/* --- functions of delta.c that kda.c and mamba.c use too ------------------------------------- */

/* Makes a->decay of the tensor `name`. */
enum status delta_decay(struct graph *g, int i, const char *name, struct delta *a,
			struct fail *fail) MUST_USE;

/* Where the operations find what the projections of a step left. */
struct delta_views {
	void *qkvz; /* NULL in kda.c, as ba is: each product writes where its view reads */
	float *ba, *sums;
	struct head_view qkv[3], z, b, a;
	const float *low[3]; /* of qkv: causal_conv_args.low */
	int n_parts;         /* of qkv */
};

/* Tokens whose recurrence runs, in n_seq sequences; ids: where states are read and written. */
struct delta_tokens {
	const struct graph_ids *ids;
	int32_t n_tok, n_seq;
	const struct gated_norm_args *norm; /* of what the recurrence gives, or NULL */
	const struct linear_args *beside;   /* products that it needs, or NULL */
};
/* Writes g->delta.y of what the views show. */
enum status delta_recur(struct graph *g, const struct delta *a, const struct delta_views *f,
			const struct delta_tokens *x, struct fail *fail) MUST_USE;
/* The same for tokens of r, whose views begin as those of the step did. */
enum status delta_again(struct graph *g, const struct delta *a, struct delta_views f,
			const struct engine_replay *r, const struct graph_ids *ids,
			struct fail *fail) MUST_USE;
