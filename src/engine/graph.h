/* SPDX-License-Identifier: Apache-2.0
 *
 * What the graphs of all architectures have in common. Thread: engine.
 *
 *   families/  one file for each family of architectures: its layer from top to bottom
 *   parts/     what layers are made of: attention, experts, and so on. They know no model
 *   graph.c    creation, memory, a step from tokens to logits
 *   graph_load.c    weights by their names
 *   mtp.c      the MTP layer
 *   eagle.c    an EAGLE-3 head, which is a graph of its own
 *   engine_watch.c  shows a caller what the routers chose
 *
 * A layer has parts: weights of its own (struct layer), and scratch memory that all layers share
 * (struct graph). A family says which parts a layer has and in which sizes; graph.c loads them.
 *
 * All memory is allocated in create. What changes from step to step is uploaded as one block
 * (struct graph_ids), so that steps of the same shape have the same launches.
 */
#pragma once
#include "engine/engine.h"
#include "engine/graph_beside.h"
#include "engine/parts/attend.h"
#include "engine/parts/compressed.h"
#include "engine/parts/delta.h"
#include "engine/parts/moe.h"
#include "engine/parts/streams.h"
#include "engine/parts/indexer.h"
#include "engine/parts/layer_embed.h"
#include "engine/parts/mla.h"
#include "engine/parts/mlp.h"
#include "engine/parts/ngram.h"

enum { GRAPH_REPLAY_IDS = 6 }; /* words on the device for struct engine_replay */

/* What the graph must hold memory for. */
struct graph_limits {
	int32_t n_ctx, page_size, n_pages, max_seqs, max_batch_tok;
	int32_t n_states; /* slots of recurrent state; 0: the model has none */
	struct load_watch load; /* is told of the weights as they are loaded */
	enum dtype kv_type; /* of the cache: the backend's, or I8 */
	/* Where several streams draft, each draft token is a sequence of its own for attention,
	 * in contexts of up to so many positions; 0: never. graph_create sets it to
	 * backend.alone_ctx, unless the model has states. */
	int32_t alone_ctx;
	bool gives_rows;  /* engine_opts.gives_rows */
	bool moves;       /* pages go to a disk and come from there */
	bool mtp;         /* engine_opts.mtp, if the model has that layer */
	bool drafts;      /* it is the graph of engine_opts.draft */
	bool has_taps;    /* the inputs of these layers are kept for a head (eagle.h) */
	int32_t taps[EAGLE_TAPS];
	const struct engine_graph *target; /* it is a head, for this graph; else NULL */
	int32_t mtp_vocab; /* engine_opts.mtp_vocab */
	const struct engine_image_rules *image_rules; /* engine_opts.image_rules */
	const struct lora *const *loras; /* (n_loras) engine_opts.loras, read in create alone */
	int n_loras;
};

/* Logits come off the device in pieces of this many rows. */
enum { GRAPH_LOGIT_ROWS = 64 };

struct graph_shape {
	uint64_t key;      /* of backend.step_begin */
	int32_t n_ctx_max; /* no n_ctx exceeds it */
	bool is_alone;     /* each token is a sequence of its own for attention */
};
/* How this batch runs. A step is recorded where each sequence has one token, or draft tokens
 * behind it, and all logits come in one piece. Then its launches depend on the numbers of tokens,
 * sequences and logit rows, whether there are drafts, and n_ctx_max (for geometry). n_ctx_max is
 * then one of few numbers: powers of two, up to limits->n_ctx. Where draft tokens are alone, the
 * number of sequences does not matter, so streams share what was recorded. Other batches have key
 * 0, and n_ctx_max is the largest n_ctx itself. graph_id: graph_shape_new_id() of this graph, since
 * others may share its backend. */
struct graph_shape graph_shape_of(uint16_t graph_id, const struct graph_limits *limits,
				  const struct engine_batch *b);
/* A number that is another for each graph, and not 0. Thread: any. */
uint16_t graph_shape_new_id(void);

/* On the device: one step's ids (step_ids.h). */
struct graph_ids {
	const int32_t *token, *position, *seq_of, *slot, *first_tok, *page_table,
		*logit_rows;
	const float *inv_t;
	const int32_t *hidden; /* (T) rows of mtp.hidden */
	const int32_t *rope_position; /* (T, 3) */
	const int32_t *last_seen; /* (T) */
	const float *q_scale; /* (T) factors of queries, or NULL */
	/* (T) first position of its block, or (T, 3) as rope_position; only with an indexer */
	const int32_t *block_start;
	const int32_t *heavy_start; /* (T) the same for blocks of heavy_ratio */
	const int32_t *lora;        /* (T) as engine_batch's, with lora_scale; where it has_lora */
	const float *lora_scale;
	struct seq_states states;
};

struct graph_step {
	const struct engine_batch *b;
	struct graph_ids ids;
	int32_t n_ctx_max; /* as in struct graph_shape */
	bool is_alone;     /* as in struct graph_shape: each draft token is a sequence of its own */
	int32_t n_seq;     /* B of ids.first_tok and ids.page_table */
	int32_t max_pages_per_seq; /* of ids.page_table */
};

/* Norms of a layer: of the inputs of its two parts, and of their outputs. */
enum graph_norm {
	NORM_MIXER, NORM_MIXER_POST, NORM_MLP, NORM_MLP_POST,
	/* With experts beside a dense part: norms of the dense part's output, and of the experts'
	 * input and output. NORM_MLP_POST is then of the sum of both outputs. */
	NORM_DENSE_POST, NORM_EXPERTS, NORM_EXPERTS_POST,
	GRAPH_NORMS
};

/* A part is there where its family has given it a size. */
struct layer {
	const char *norm_names[GRAPH_NORMS]; /* a family says them; NULL: it lacks that norm */
	const float *norms[GRAPH_NORMS];
	struct attention attention;
	struct mla mla;
	struct compressed compressed;
	struct delta delta;
	struct mlp mlp;
	struct moe experts;
	struct layer_embed embed;
	struct stream_gates gates[STREAMS_LAST];
	struct indexer indexer;
	struct ngram ngram;
	bool has_scale;                /* a family says it: layer_scalar is there */
	float scale;                   /* factor of the layer's output; 0: none */
	struct weight own[2];          /* of the family alone */
	const float *own_norm;         /* the same, (D) */
	void *k_pages, *v_pages;       /* (n_pages, G, P, K) kv; NULL: it has none */
	uint16_t *k_scales, *v_scales; /* (n_pages, G, P) f16 of a cache in int8; else NULL */
	size_t k_bytes, v_bytes, scale_bytes; /* of one page of keys, of values, of scales */
	int32_t page_heads, page_dim;  /* G, K of k_pages */
};

/* Memory of a family alone, beside that of its parts. */
struct family_scratch {
	void *in;          /* (T, …) act: what routed experts read */
	float *both;       /* (…, T, …) f32: outputs of parts before they are added */
	const float *ones;
};

struct family;
struct graph_lora;
struct graph {
	const struct model_config *c;
	int32_t dim, n_layers;         /* D, L: without the MTP layer */
	float eps;                     /* of norms */
	struct model *m;
	struct backend *b;
	const struct family *family;
	struct graph_limits limits;
	uint16_t id;                   /* graph_shape_new_id */
	engine_watch_fn watch;         /* sees the routers' choices; NULL: nobody does */
	void *watch_ctx;
	int64_t n_loaded, n_to_load;   /* bytes of weights */
	struct weight embed, head;
	void *head_memory; /* memory that head points into, if it is not the model's */
	const float *out_norm;         /* (D); NULL: the model ends without a norm */
	struct layer *layers;          /* (graph_n_layers) */
	struct weight *expert_weights; /* host, all layers' */
	/* graph_measure: bytes are added up here, and nothing is allocated. Else NULL. */
	int64_t *measured;
	char *probed; /* graph_mtp_lacks: nothing is loaded. Else NULL */
	void **blocks;                 /* device memory, for destroy */
	size_t n_blocks;

	/* On the device, T = max_batch_tok. */
	int32_t *ids, *ids_host;       /* room for one graph_ids; ids_host: shared … */
	int32_t n_ids;                 /* … of which a step brings so many */
	int32_t replay_at;             /* GRAPH_REPLAY_IDS of each sequence from here on */
	int32_t kept_tok;              /* tokens of the last step with drafts */
	double *inv_freq[MODEL_MAX_ROPES];   /* (n_rot/2) */
	double rope_factor[MODEL_MAX_ROPES]; /* of cos and sin, unless a scale has it */
	float *rope[MODEL_MAX_ROPES];        /* (T, n_rot/2, 2) */
	struct images_scratch images;
	struct mover mover;
	void *wide_k, *wide_v;         /* kv_pages.wide_k and wide_v, of all layers */
	float *x;                      /* (T, D) */
	void *n;                       /* (T, D) act */
	float *part;                   /* (T, D) output of a part, before its norm */
	/* Blocks of positions whose first ones a step brings (graph_ids); 0: none. */
	int32_t block_ratio[2];
	float *rows;                   /* (GRAPH_LOGIT_ROWS, D) */
	void *rows_n;                  /* (GRAPH_LOGIT_ROWS, D) act */
	void *rows_host;               /* host (T, D) act; NULL: no gives_rows */
	float *logits;                 /* (GRAPH_LOGIT_ROWS, V) */
	struct logits_top *top;        /* (GRAPH_LOGIT_ROWS) shared; NULL: b is not far */
	bool has_top;                  /* true: top is of the last step */
	struct attend_scratch attention;
	struct mla_scratch mla;
	struct compressed_scratch compressed;
	struct delta_scratch delta;
	struct mlp_scratch mlp;
	struct moe_scratch moe;
	struct family_scratch own;
	struct layer_embed_scratch embeds;
	struct streams_scratch streams;
	struct indexer_scratch indexer;
	struct ngram_scratch ngrams;
	struct mtp mtp;
	struct tap_scratch taps;
	struct eagle_scratch eagle;
	struct graph_lora *lora; /* NULL: no adapters */
};

/* The graph of m by `family`: loads every weight and takes all memory of the device. The graph uses
 * m and b until it is destroyed. */
enum status graph_create(struct model *m, struct backend *b, const struct family *family,
			 const struct graph_limits *limits, struct engine_graph *out,
			 struct fail *fail) MUST_USE;

/* Device memory that graph_create will take beside the weights, in bytes. It runs the same code,
 * which then allocates nothing. */
int64_t graph_measure(struct model *m, struct backend *b, const struct family *family,
		      const struct graph_limits *limits);

/* graph_lora_match for a graph that is not created. */
enum status graph_check_loras(struct model *m, const struct family *family,
			      const struct graph_limits *limits, struct fail *fail) MUST_USE;

/* Number of the model's layers, and then the one that drafts, if limits.mtp is set. */
static inline int graph_n_layers(const struct graph *g)
{
	return g->n_layers + g->limits.mtp;
}
