/* SPDX-License-Identifier: Apache-2.0
 *
 * What a graph keeps beside its layers, for graph_images.c, graph_move.c and mtp.c. Letters as in
 * kernels/README.md. Thread: engine.
 */
#pragma once
#include "backend/backend.h"
#include "engine/parts/streams.h"

/* The MTP layer (enum model_mtp). It is g->layers[n_layers]. T: max_batch_tok,
 * R: ENGINE_HIDDEN_ROWS. */
struct mtp {
	struct weight fuse;   /* (D, 2 D): of the embedding, then of the hidden state */
	struct weight embed_fc, hidden_fc; /* (D, D) in place of it: a model of streams */
	struct stream_gates last;          /* of such a model: behind the layer */
	struct weight head;   /* the first rows of graph.head, in its memory */
	const float *embed_norm, *hidden_norm, *out_norm;
	/* (R + T + R, D) act: hidden states (enum engine_hidden), after the last norm. Of streams
	 * (R + T + R, S D), after hidden_norm. */
	void *hidden;
	float *x, *h;         /* (T, D) */
	void *both;           /* (T, 2 D) act */
	float *host;          /* host (R, head.n); NULL: the backend finds the best */
};

/* Inputs of layers for a head that drafts (eagle.h). T: max_batch_tok. */
struct tap_scratch {
	float *x;             /* (EAGLE_TAPS, T, D) */
	const int32_t *count; /* (T) 0, 1, 2 … */
};

/* Of that head. E: width of the model that it drafts for. */
struct eagle_scratch {
	int32_t *d2t;         /* host; NULL: its tokens have the model's numbers */
	const int32_t *order; /* (EAGLE_TAPS T) */
	float *wide;          /* (T, EAGLE_TAPS E), and the same in act: */
	void *in;
};

/* Of images (graph_images.h). T: max_batch_tok. */
struct images_scratch {
	int32_t *rope_axis; /* (n_rot/2) `axis` of rope_table; NULL: prompts have no images */
	void *deep;         /* (T, D) act, what is added after a layer */
	void *deep_host;    /* host (n_deep, T, D) act */
};

/* Pages on their way to or from the host, packed. On the device. */
struct mover {
	struct move_piece *piece; /* (n_pieces) the arrays of pages */
	int32_t n_pieces;         /* 0: pages are moved part by part */
	char *memory;             /* an address before all of the arrays */
	/* For a far backend. NULL: a near one packs directly in the host's memory. */
	int32_t *at;              /* pages of a block, as many as it has room for … */
	char *block;              /* … one after the other */
	size_t page_bytes;
};
