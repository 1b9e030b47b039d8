/* SPDX-License-Identifier: Apache-2.0
 *
 * A dense feed-forward part, or a shared expert. Thread: engine.
 *
 *   x += Wdown (act(Wgate n) * Wup n), where each W may have a bias
 *   ungated: x += Wdown act(Wup n)
 */
#pragma once
#include "engine/parts/part.h"

/* A family says the first part; the rest is loaded. */
struct mlp {
	int32_t dim;             /* F; 0: the layer has none */
	const char *name;        /* of its tensors: "mlp" */
	bool is_ungated;
	bool has_bias;           /* of gate, up and down; files may lack some of them */
	struct activation act;

	struct weight gate, up, down;
	const float *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

struct mlp_scratch {
	void *gate, *up; /* (T, F) act */
};

enum status mlp_load(struct graph *g, int i, struct mlp *m, struct fail *fail) MUST_USE;
enum status mlp_alloc(struct graph *g, struct fail *fail) MUST_USE;

/* The scratch's gate (T, F) = act(Wgate n) * Wup n. */
struct mlp_inner {
	const struct mlp *m;
	const struct rms_norm_args *norm; /* makes n = g->n first; NULL: it is made */
};
enum status mlp_inner(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct mlp_inner *x, struct fail *fail) MUST_USE;

/* All of it. */
struct mlp_run {
	const struct mlp *m;
	const struct rms_norm_args *norm; /* as mlp_inner's */
	const float *post;                /* as graph_add's, with its scale */
	float scale;
	bool is_shared;                   /* for the profile: a shared expert */
};
enum status mlp_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct mlp_run *x, struct fail *fail) MUST_USE;
