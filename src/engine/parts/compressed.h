/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention to a window and to compressed keys (compressed.c). Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

/* Makes one key of `ratio` positions. */
struct compressor {
	int32_t dim, ratio, n_series;
	struct weight value, gate;  /* (n_series dim, D) */
	const float *bias;          /* (ratio, n_series dim) */
	const float *norm;          /* (dim) */
	void *values, *gates;       /* as in compress_args */
	size_t page_bytes;          /* bytes of one page of values, and of gates */
};

/* One layer's. A family says the first part; the rest is loaded. */
struct compressed {
	int32_t n_heads, head_dim;  /* H, K; n_heads 0: the layer has none */
	int32_t q_lora, o_groups, o_lora;
	int32_t window;             /* tokens that are seen as they are */
	int32_t n_freq, i_rope;     /* rotated pairs of a head; rope of the graph */
	int32_t ratio;              /* positions of its blocks; 0: it has no blocks */
	/* An indexer chooses index_budget of blocks of index_ratio; all of heavy_ratio are
	 * seen. */
	int32_t index_ratio, heavy_ratio, index_heads, index_dim, index_budget;

	struct weight q_a, q_b, kv; /* (q_lora, D), (H K, q_lora), (K, D) */
	struct weight o_a, o_b;     /* (o_groups o_lora, H K / o_groups), (D, o_groups o_lora) */
	const float *q_norm, *kv_norm, *sinks;
	const float *rope;          /* angles of the step: one of graph.rope */
	struct compressor own, index;
	struct weight index_q, index_weights; /* (A I, q_lora), (A, D) */
	void *index_rows;           /* (n_pages, E, I) kv: the indexer's keys of blocks */
	size_t index_bytes;
};

struct compressed_scratch {
	float *q_a;                 /* (T, q_lora) f32, for its norm */
	void *q_a_n, *q, *y, *kv;   /* (T, q_lora), (T, H, K) twice, (T, K) act */
	void *low;                  /* (T, o_groups o_lora) act */
	void *value, *gate;         /* (T, 2 K) act */
	void *index_q;              /* (T, A, I) act */
	float *weight;              /* (T, A) */
	float *rope_of[2];          /* (T, n_rot/2, 2): of blocks of index_ratio, heavy_ratio */
	float *scores;              /* (64, blocks of n_ctx) */
	int32_t *chosen, *chosen_last; /* (T, index_budget + 1), (T) */
	int32_t *table, *last;      /* (T, width), (T) */
	int32_t width;
	const int32_t *each;        /* (T + 1) 0, 1, 2 … */
};

enum status compressed_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status compressed_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* In a step, after its ropes: the angles of blocks. */
enum status compressed_begin(struct graph *g, const struct graph_step *s,
			   struct fail *fail) MUST_USE;

/* x += all of it, of n = g->n. */
enum status compressed_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			 struct fail *fail) MUST_USE;

/* pages: the arrays that a layer has in KV pages; p NULL: there is none. */
enum { COMPRESSED_PAGES = 6 };
struct page_array {
	char *p;
	size_t bytes; /* bytes of one page */
};
int compressed_pages(const struct layer *l, struct page_array out[COMPRESSED_PAGES]);
enum status compressed_copy_page(struct graph *g, const struct layer *l, int32_t dst,
			       int32_t src) MUST_USE;
