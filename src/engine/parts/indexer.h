/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses what attention sees (indexer.c). Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

/* One layer's. A family says the first part; the rest is loaded. */
struct indexer {
	/* A, K; n_heads 0: none, and with a budget the choice of the layer before holds. */
	int32_t n_heads, dim;
	int32_t budget, ratio;           /* positions that are seen; in blocks of so many */
	int32_t n_freq;                  /* rotated pairs of a head */
	int32_t q_lora;                  /* > 0: with MLA, whose rank this is */
	bool is_pooled;                  /* with MLA: gates say what a key counts in its block */
	float eps;

	struct weight qk;                /* ((A + 1) K, D): queries, then the key */
	bool is_apart;                   /* true: instead q (A K, D) and k (K, D) */
	/* Or with MLA: (A K, q_lora), (K, D), (A, D) */
	struct weight q, k, weights;
	struct weight gate;              /* is_pooled: (K, D) … */
	const float *place;              /* … and (ratio, K), added for each place in a block */
	const float *q_norm, *k_norm;    /* (K) */
	const float *k_bias;             /* (K), with MLA */
	void *keys, *blocks;             /* as in index_keys_args */
	void *gates;                     /* is_pooled: like keys */
	size_t key_bytes, block_bytes;   /* bytes of one page of keys, and of blocks */
};

struct indexer_scratch {
	void *qk, *rotated;   /* (T, A + 1, K) act; rotated: queries, normalised and rotated */
	void *key;           /* (T, K) act: the key, if it is not in qk (MLA, is_apart) */
	float *weight;       /* (T, A) weights of heads, with MLA */
	float *wide_key;     /* (T, K), is_pooled: the key before its norm … */
	void *gate;          /* … and (T, K) act: its gates */
	float *rope;         /* (T, n_rot/2, 2): of the first positions of blocks */
	float *scores;       /* (64, blocks of n_ctx) */
	int32_t *table, *last;
	const int32_t *each; /* (T + 1) 0, 1, 2 … */
};

enum status indexer_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status indexer_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* In a step, after its ropes: the angles of blocks. */
enum status indexer_begin(struct graph *g, const struct graph_step *s,
			  struct fail *fail) MUST_USE;
/* Changes what attention sees; g->n is what the layer reads, and its keys and values are in the
 * cache. */
enum status indexer_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			struct attention_args *a, struct fail *fail) MUST_USE;
enum status indexer_copy_page(struct graph *g, const struct layer *l, int32_t dst,
			      int32_t src) MUST_USE;
