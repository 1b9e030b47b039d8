/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-head latent attention (mla.c). Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

/* Latent attention of one layer. A family says the first part; the rest is loaded. */
struct mla {
	int32_t n_heads;             /* 0: the layer has none */
	int32_t q_lora, kv_lora;     /* ranks; q_lora 0: q is one projection */
	int32_t nope_dim, rope_dim, v_dim; /* of a head: not rotated, rotated, of its value */
	float eps;                   /* of the norms between projections */
	bool is_interleaved;         /* rope rotates neighbours, not the two halves */
	bool has_attn_temp;          /* queries at late positions are scaled up (rope.h) */
	bool has_gate;               /* g_proj makes a gate for each head of y */
	/* Factors of q . k, and further ones of its rotated part. */
	float scale, rope_scale;

	struct weight q_a, q_b, q; /* q alone if q_lora is 0 */
	struct weight kv_a, o;
	struct weight gate; /* has_gate: (H, D) */
	/* (H * (nope + v), kv_lora): each head's part for keys, then for values. is_split: apart,
	 * each in the layout in which it is used: keys (H * kv_lora, nope), values (H * v,
	 * kv_lora). */
	bool is_split;
	struct weight kv_b, k_b, v_b;
	const float *q_a_norm, *kv_a_norm;
};

struct mla_scratch {
	float *q_a;              /* (T, q_lora) f32, for its norm */
	void *q_a_n;             /* (T, q_lora) act */
	void *q, *q_wide;        /* (T, H, K), (T, H, kv_lora + rope_dim) act */
	void *kv;                /* (T, kv_lora + rope_dim) act */
	void *gate;              /* (T, H) act */
	void *y_wide, *y;        /* (T, H, kv_lora), (T, H, v_dim) act */
};

enum status mla_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status mla_alloc(struct graph *g, struct fail *fail) MUST_USE;

/* q (T, H, nope + rope), kv (T, kv_lora + rope) and, where there are gates, gate (T, H) of n. */
struct mla_project {
	const struct rms_norm_args *norm; /* makes n = g->n first */
};
enum status mla_project(struct graph *g, const struct layer *l, const struct graph_step *s,
			const struct mla_project *x, struct fail *fail) MUST_USE;

/* y (T, H, v_dim) = attention to the cache, once kv is in it. */
struct mla_see {
	const struct indexer *index; /* chooses what is seen; NULL: all is */
};
enum status mla_see(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct mla_see *x, struct fail *fail) MUST_USE;

/* y *= sigmoid(gate) of its head, where the layer has gates. */
enum status mla_gate(struct graph *g, const struct layer *l, const struct graph_step *s,
		     struct fail *fail) MUST_USE;

/* x += Wo y. */
struct mla_out {
	const struct moe_router_args *next; /* as graph_add's */
};
enum status mla_out(struct graph *g, const struct layer *l, const struct graph_step *s,
		    const struct mla_out *x, struct fail *fail) MUST_USE;
