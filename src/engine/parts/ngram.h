/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings of n-grams, which some layers add to the residual streams (ngram.c). Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

#define NGRAM_MOST 8 /* tokens of the longest n-gram */

struct ngram_part {
	int64_t size, start;
};
/* One layer's. */
struct ngram {
	bool is_here;                    /* a family says it, and which of the tables it reads */
	int32_t i_table;

	struct ngram_part *part;         /* host */
	int64_t factor[NGRAM_MOST], n_rows;
	struct weight *shard;            /* host (n_shards) the table's rows */
	int32_t n_shards;
	struct weight key, value;        /* (S D, P), (D, P) */
	const float *key_norm, *query_norm, *conv_norm; /* (S, D) */
	const float *conv;               /* (S D, width of the convolution) */
	float *state;                    /* (n_states, S D, width - 1) */
	size_t state_bytes;              /* bytes of one state */
	void *kept;                      /* (ENGINE_DRAFT_TOK, S D) act, for replay */
};

struct ngram_scratch {
	/* A family says this. n-grams have 2 to `size` tokens. A table has n_heads parts for each
	 * length, of `vocab` rows or a few more. Together they give `dim` numbers a token. No
	 * n-gram crosses a token `eos`. */
	int32_t n_tables;                /* 0: the model has none */
	int32_t size, n_heads, dim, vocab, seed, eos;
	int32_t n_taps;                  /* of the convolution, `size` tokens apart */
	/* Factors of the hash and rows of the parts of the one table, if the file gives them
	 * (GGUF). NULL: they follow from seed and vocab. */
	const int64_t *factors, *sizes;

	char *host;  /* shared (tables, T, P) act: rows of the step */
	float *row;  /* host (P) */
	void *rows;  /* (T, P) act */
	void *key;   /* (T, S, D) act: keys; then the convolution's output */
};

enum status ngram_load(struct graph *g, int i, struct fail *fail) MUST_USE;
void ngram_free(struct ngram *n);
enum status ngram_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* Before a step: reads its rows into memory that is shared with the device. */
void ngram_read(struct graph *g, const struct engine_batch *b);
/* Adds to the streams, except *out_add, which streams_enter must add. */
struct ngram_run {
	const void **out_add;
};
enum status ngram_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct ngram_run *x, struct fail *fail) MUST_USE;
enum status ngram_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
			 const struct graph_ids *ids, struct fail *fail) MUST_USE;
