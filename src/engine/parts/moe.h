/* SPDX-License-Identifier: Apache-2.0
 *
 * Routed experts, and a shared one beside them. Thread: engine.
 *
 *   x += sum of weight[u] Wdown (act(Wgate n) * Wup n) of the chosen experts u
 *   x += the same of the shared expert, which all tokens use
 */
#pragma once
#include "engine/parts/mlp.h"

/* Experts of one layer. A family says the first part; the rest is loaded. The rules of the
 * choice are those of kernels/ops/moe_router.h. */
struct moe {
	int32_t n, n_used, dim;     /* E, U, width of an expert; n 0: the layer has none */
	int32_t in_dim;             /* width of what an expert reads and adds to; 0: that of x */
	const char *router_name;    /* "mlp.gate" */
	struct activation act;
	bool is_ungated;            /* no gate: with ACT_RELU, up stands for it */
	bool norm_topk, is_sigmoid, is_shifted, is_root;
	int32_t n_groups, n_groups_used;
	float routed_scale;
	bool has_choice_bias;       /* mlp.gate.e_score_correction_bias … */
	bool choice_is_row;         /* … which is (1, E) */
	bool has_logit_bias;        /* of the router, whose name it has */
	bool has_bias;              /* of gate, up and down of each expert */
	bool has_expert_scale;      /* router.per_expert_scale */
	bool is_fixed;              /* a table says which experts a token uses */
	bool is_hidden;             /* the router reads another thing than NORM_MLP's norm of x */
	struct mlp shared;          /* its dim 0: none */
	const char *shared_router;  /* name of the gate of the shared expert; NULL: it has none */
	bool shared_is_apart;       /* its input or activation is not that of the routed ones */

	struct weight router, shared_gate;
	const float *router_bias;   /* (E) added for the choice, or NULL */
	const float *logit_bias;    /* (E), or NULL */
	const int32_t *fixed;       /* (V, U) experts of each token, or NULL */
	const float *expert_scale;  /* (E), or NULL */
	struct experts routed;
};

struct moe_scratch {
	float *logits, *weight;         /* (T, E), (T, U) */
	int32_t *id, *work;
	void *h;                        /* (T, U, F) act */
	void *shared_h;                 /* (T, 2 S) act */
	float *shared_scale;            /* (T) */
	/* For struct moe_ahead, if experts are read from a file; else NULL. */
	void *ahead_x;                  /* (MOE_AHEAD_MAX_TOK, D) act */
	float *ahead_logits, *ahead_weight;
	int32_t *ahead_id;
};

enum status moe_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status moe_alloc(struct graph *g, struct fail *fail) MUST_USE;

/* The router of layer l's experts, for t tokens of g->n. norm: makes g->n first; NULL: it is
 * made. */
struct moe_router_args moe_router(const struct graph *g, const struct layer *l, int32_t t,
				      const struct rms_norm_args *norm);
/* True if layer l has experts whose router may run with what comes before it (graph_add's next).
 * The MTP layer runs them apart. */
bool moe_follow(const struct graph *g, const struct layer *l);
/* Runs the router alone, and shows its choice to engine_watch_routers. */
enum status moe_choose(struct graph *g, const struct layer *l,
			   const struct moe_router_args *router, struct fail *fail) MUST_USE;

/* y += the routed experts, of what they read. */
struct moe_run {
	const struct rms_norm_args *norm; /* makes g->n first; NULL: it is made */
	bool is_chosen;                   /* moe_choose has run; norm is not read */
	const void *in;                   /* (T, in_dim) act; NULL: g->n */
	const float *weight;              /* (T, U) of experts; NULL: the router's */
	float *y;                         /* (T, in_dim) f32; NULL: x */
};
/* The shared expert runs with them, unless it is apart. */
enum status moe_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			const struct moe_run *x, struct fail *fail) MUST_USE;
