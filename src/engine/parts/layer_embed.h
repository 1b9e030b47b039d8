/* SPDX-License-Identifier: Apache-2.0
 *
 * What each layer reads of the token itself (layer_embed.c). P: width. Thread: engine.
 */
#pragma once
#include "engine/parts/part.h"

struct layer_embed {
	struct weight gate, out;  /* (P, D), (D, P) */
	const float *post_norm;   /* (D) */
};

struct layer_embed_scratch {
	/* A family says this. */
	int32_t width;            /* P; 0: layers read nothing of the token */
	int32_t n_rows;           /* of the table */
	float scale;              /* factor of the table's rows */
	struct activation act;

	struct weight table;      /* (V, L P) */
	struct weight project;    /* (L P, D) */
	const float *norm;        /* (P) */
	float *sum, *part;        /* (T, L, P) */
	void *all;                /* (T, L, P) act: of the step's tokens, for all layers */
	void *gate;               /* (T, P) act */
};

enum status layer_embed_load_top(struct graph *g, struct fail *fail) MUST_USE;
enum status layer_embed_load(struct graph *g, int i, struct fail *fail) MUST_USE;
enum status layer_embed_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* In a step, while x has the embeddings. */
enum status layer_embed_begin(struct graph *g, const struct graph_step *s,
			      struct fail *fail) MUST_USE;
/* The last part of a layer. */
struct layer_embed_run {
	float scale; /* factor of the new x; 0: 1 */
};
enum status layer_embed_run(struct graph *g, const struct layer *l, const struct graph_step *s,
			    const struct layer_embed_run *x, struct fail *fail) MUST_USE;
