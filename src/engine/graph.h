/* SPDX-License-Identifier: Apache-2.0
 *
 * What the graphs of all architectures have in common. A layer is a mixer and an mlp.
 * A mixer lets a token see the tokens before it. Thread: engine.
 *
 *   graph.c          creation, memory, a step from tokens to logits
 *   graph_load.c     weights by their names
 *   mixer_attention  attention over keys and values of heads
 *   mixer_mla        attention over a compressed key (DeepSeek)
 *   mixer_delta      a gated delta net, with a state instead of a cache; mixer_conv and
 *                    mixer_space (Mamba-2) alike
 *   mlp              dense, or experts chosen by a router, or both
 *   layer_embed      what each layer reads of the token itself
 *   mixer_compress   attention to a window and compressed keys (DeepSeek-V4)
 *   hyper            several residual streams; ngram adds n-grams to them
 *   indexer          chooses what attention sees
 *   mtp              the layer that guesses
 *   graph_turns      turns of what products read and write
 *   engine_watch.c   shows a caller what the routers chose
 *   arch_<name>      which mixer and which mlp a layer has
 *
 * Each has weights of one layer, and scratch memory that all share: load, alloc and run.
 *
 * All memory is allocated in create. What changes from step to step is uploaded as one block
 * (struct graph_ids), so that steps of the same shape have the same launches.
 */
#pragma once
#include "engine/engine.h"
#include "engine/graph_parts.h"

enum { GRAPH_REPLAY_IDS = 6 }; /* words on the device for struct engine_replay */

/* What the graph must hold memory for. */
struct arch_limits {
	int32_t n_ctx, page_size, n_pages, max_seqs, max_batch_tok;
	int32_t n_states; /* slots of recurrent state; 0: the model has none */
	struct load_watch load; /* is told of the weights as they are loaded */
	enum dtype kv_type; /* of the cache: the backend's, or I8 */
	/* In contexts of up to so many positions each guess of several streams is a sequence of
	 * its own for attention; 0: never. graph_create sets it to backend.alone_ctx, unless the
	 * model has states. */
	int32_t alone_ctx;
	bool gives_rows;  /* engine_opts.gives_rows */
	bool moves;       /* pages go to a disk and come from there */
	bool mtp;         /* engine_opts.mtp, if the model has that layer */
	int32_t mtp_vocab; /* engine_opts.mtp_vocab */
	const struct engine_sight *sight; /* engine_opts.sight */
};

/* Logits come off the device in pieces of this many rows. */
enum { ARCH_LOGIT_ROWS = 64 };

struct arch_step {
	uint64_t key;      /* of backend.step_begin */
	int32_t n_ctx_max; /* no n_ctx exceeds it */
	bool is_alone;     /* each token is a sequence of its own for attention */
};
/* How this batch runs. A step is recorded where each sequence has one token, or guesses
 * behind it, and all logits come in one piece. Then its launches depend on the numbers of tokens,
 * sequences and logit rows, whether there are guesses, and n_ctx_max (for geometry). n_ctx_max is
 * then one of few numbers: powers of two, up to limits->n_ctx. Where guesses are alone, the
 * number of sequences does not matter, so streams share what was recorded. Other batches have key
 * 0, and n_ctx_max is the largest n_ctx itself. graph_id: arch_graph_id() of this graph, since
 * others may share its backend. */
struct arch_step arch_step(uint16_t graph_id, const struct arch_limits *limits,
			   const struct engine_batch *b);
/* A number that is another for each graph, and not 0. Thread: any. */
uint16_t arch_graph_id(void);

/* On the device: one step's ids (step_ids.h). */
struct graph_ids {
	const int32_t *token, *position, *seq_of, *slot, *first_tok, *page_table,
		*logit_rows;
	const float *inv_t;
	const int32_t *hidden; /* (T) rows of mtp.hidden */
	const int32_t *rope_position; /* (T, 3) */
	const int32_t *last_seen; /* (T) */
	const float *q_scale; /* (T) factors of queries, or NULL */
	const int32_t *block_start; /* (T) first position of its block; only with an indexer */
	const int32_t *heavy_start; /* (T) the same for blocks of heavy_ratio */
	struct seq_states states;
};

struct graph_step {
	const struct engine_batch *b;
	struct graph_ids ids;
	int32_t n_ctx_max; /* as in struct arch_step */
	bool is_alone;     /* as in struct arch_step: each guess is a sequence of its own */
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

struct layer {
	const float *norms[GRAPH_NORMS]; /* NULL: the layer lacks that norm */
	struct attention attention;
	struct mla mla;
	struct compressed compressed;
	struct delta_layer delta;
	struct mlp mlp;
	struct layer_embed embed;
	struct hyper hyper[HYPER_LAST];
	struct indexer indexer;
	struct ngram ngram;
	float scale;                  /* factor of the layer's output; 0: none */
	void *k_pages, *v_pages;      /* (n_pages, G, P, K) kv; NULL: it has none */
	uint16_t *k_scales, *v_scales; /* (n_pages, G, P) f16 of a cache in int8; else NULL */
	size_t k_bytes, v_bytes, scale_bytes; /* of one page of keys, of values, of scales */
};

struct arch;
struct graph {
	const struct model_config *c;
	struct model *m;
	struct backend *b;
	const struct arch *arch;
	struct arch_limits limits;
	uint16_t id;                   /* arch_graph_id */
	engine_watch_fn watch;         /* sees the routers' choices; NULL: nobody does */
	void *watch_ctx;
	int64_t n_loaded, n_to_load;   /* bytes of weights */
	struct weight embed, head;
	void *head_memory; /* memory that head points into, if it is not the model's */
	const float *out_norm;         /* (D); NULL: the model ends without a norm */
	struct layer *layers;          /* (graph_n_layers) */
	struct weight *expert_weights; /* host, all layers' */
	struct graph_turns *turns;     /* NULL: nothing is loaded */
	/* graph_measure: bytes are added up here, and nothing is allocated. Else NULL. */
	int64_t *measured;
	char *probed; /* graph_mtp_lacks: nothing is loaded. Else NULL */
	void **blocks;                 /* device memory, for destroy */
	size_t n_blocks;

	/* On the device, T = max_batch_tok. */
	int32_t *ids, *ids_host;       /* room for one graph_ids; ids_host: shared … */
	int32_t n_ids;                 /* … of which a step brings so many */
	int32_t replay_at;             /* GRAPH_REPLAY_IDS of each sequence from here on */
	int32_t kept_tok;              /* tokens of the last step with guesses */
	double *inv_freq[MODEL_MAX_ROPES];   /* (n_rot/2) */
	double rope_factor[MODEL_MAX_ROPES]; /* of cos and sin, unless a scale has it */
	float *rope[MODEL_MAX_ROPES];        /* (T, n_rot/2, 2) */
	struct sight_scratch sight;
	struct mover mover;
	void *wide_k, *wide_v;         /* kv_pages.wide_k and wide_v, of all layers */
	float *x;                      /* (T, D) */
	void *n;                       /* (T, D) act */
	float *part;                   /* (T, D) output of a part, before its norm */
	float *rows;                   /* (ARCH_LOGIT_ROWS, D) */
	void *rows_n;                  /* (ARCH_LOGIT_ROWS, D) act */
	void *rows_host;               /* host (T, D) act; NULL: no gives_rows */
	float *logits;                 /* (ARCH_LOGIT_ROWS, V) */
	struct logits_top *top;        /* (ARCH_LOGIT_ROWS) shared; NULL: b is not far */
	bool has_top;                  /* true: top is of the last step */
	struct attention_scratch attention;
	struct mla_scratch mla;
	struct compress_scratch compress;
	struct delta_scratch delta;
	struct mlp_scratch mlp;
	struct layer_embed_scratch embeds;
	struct hyper_scratch hyper;
	struct indexer_scratch indexer;
	struct ngram_scratch ngrams;
	struct mtp mtp;
};

/* The graph of m by `arch`: loads every weight and takes all memory of the device. The graph uses
 * m and b until it is destroyed. */
enum status graph_create(struct model *m, struct backend *b, const struct arch *arch,
			 const struct arch_limits *limits, struct engine_graph *out,
			 struct fail *fail) MUST_USE;

/* Device memory that graph_create will take beside the weights, in bytes. It runs the same code,
 * which then allocates nothing. */
int64_t graph_measure(struct model *m, struct backend *b, const struct arch *arch,
		      const struct arch_limits *limits);

/* The function for engine_graph.replay. */
enum status graph_replay(void *ctx, const struct engine_replay *r);

/* --- for mixers and architectures -------------------------------------------------- */

/* Number of the model's layers, and then the one that guesses, if limits.mtp is set. */
static inline int graph_n_layers(const struct graph *g)
{
	return g->c->n_layers + g->limits.mtp;
}

/* Queue an operation of graph g, or return from the caller with its failure. */
#define RUN(op, ...) do { \
	enum status st_ = g->b->ops->op(g->b, &(struct op##_args){__VA_ARGS__}); \
	if (st_ != OK) \
		return graph_op_failed(g, #op, t, st_, fail); \
} while (0)
enum status graph_op_failed(const struct graph *g, const char *op, int32_t n_tok,
			    enum status st, struct fail *fail);

/* Attention's keys and values of a layer, n_bytes a token, for the profile: each of the
 * step's sequences reads them once at least. Enters stage ATTENTION. */
void graph_enter_attention(struct graph *g, const struct graph_step *s, int32_t window,
			   size_t n_bytes);

/* x += W in (+ bias). Where the layer has the norm `post`, that norm of the product is added. */
struct graph_add {
	const struct weight *w;
	const float *bias; /* or NULL */
	const void *in;    /* (T, K) act */
	enum graph_norm post;
	float scale;       /* factor of the new x, where the layer has that norm; 0: 1 */
};
enum status graph_add(struct graph *g, const struct layer *l, int32_t t,
		      const struct graph_add *a, struct fail *fail) MUST_USE;

/* The norm `which` of x, for a part of layer l to read t tokens of g->x in g->n. The layer has
 * that norm. */
struct rms_norm_args graph_norm(const struct graph *g, const struct layer *l,
				enum graph_norm which, int32_t t);

/* Readies g->n for a part of layer l. *first: the norm that the operation which reads g->n must
 * do first, made in *norm. NULL: g->n is made. Then hyper.c has made it, or the layer has no
 * such norm and g->n is x itself. */
enum status graph_read(struct graph *g, const struct layer *l, enum graph_norm which,
		       int32_t t, struct rms_norm_args *norm,
		       const struct rms_norm_args **first, struct fail *fail) MUST_USE;

/* Zeroed memory of the device; out: where the pointer goes. */
enum status graph_alloc(struct graph *g, size_t n_bytes, void *out,
		       struct fail *fail) MUST_USE;
struct graph_want {
	void *out;
	size_t n_bytes;
};
enum status graph_take_all(struct graph *g, const struct graph_want *w, size_t n,
			   struct fail *fail) MUST_USE;
/* Loads the tensor `name` as g->head: in int8 if the backend was asked for that and the model has
 * 16 bits or more. Otherwise a tied head is the embeddings. */
enum status graph_load_head(struct graph *g, const char *name, struct fail *fail) MUST_USE;
void graph_tell_loaded(void *graph, size_t n_bytes); /* a backend's on_stored */
/* Copies n floats of the host to the device. put_filled: n times x. */
enum status graph_put_floats(struct graph *g, const float *host, size_t n,
			     const float **out, struct fail *fail) MUST_USE;
/* Puts 0, 1, 2 … n - 1 on the device. */
enum status graph_put_count(struct graph *g, size_t n, const int32_t **out,
			    struct fail *fail) MUST_USE;
enum status graph_put_filled(struct graph *g, float x, size_t n, const float **out,
			     struct fail *fail) MUST_USE;
/* Puts a vector of n floats of layer i (-1: of the model), times `scale`, on the device. */
enum status graph_put_scaled(struct graph *g, int i, const char *name, int32_t n, float scale,
			     const float **out, struct fail *fail) MUST_USE;

/* The tensors of a layer by their names below <body>layers.<i>. */
enum graph_kind {
	GRAPH_WEIGHT, GRAPH_EXPERT, /* (rows, cols) to a struct weight; of a routed expert */
	GRAPH_ROWS,   /* the same; for moe_router and head_linear, which read rows */
	GRAPH_TABLE,  /* the same; for embed_rows alone */
	GRAPH_VECTOR, /* rows floats to a const float * */
	GRAPH_NORM,   /* the same; 1 is added where norms are stored less 1 */
	GRAPH_MATRIX, /* (rows, cols) floats */
};
struct graph_part {
	const char *name;
	enum graph_kind kind;
	int32_t rows, cols;
	void *out;
};
enum status graph_load_parts(struct graph *g, int i_layer, const struct graph_part *parts,
			     size_t n, struct fail *fail) MUST_USE;
/* "model.layers.<i>.<name>" in out (200 bytes); returns out. */
const char *graph_layer_name(const struct graph *g, int i_layer, const char *name,
			     char out[200]);
bool graph_layer_has(const struct graph *g, int i_layer, const char *name);
/* Shows g->watch what the router that was queued with arguments a has chosen, and takes over what
 * g->watch changes. */
enum status graph_watch_router(struct graph *g, int i_layer,
			       const struct moe_router_args *a,
			       struct fail *fail) MUST_USE;
/* What a layer's cache needs: n_k and n_v numbers a token (n_v 0: keys only) in n_heads heads. */
struct graph_pages_want {
	int32_t n_k, n_v, n_heads;
};
enum status graph_take_pages(struct graph *g, struct layer *l,
			     const struct graph_pages_want *w, struct fail *fail) MUST_USE;
/* Allocates g->wide_k and g->wide_v, if the backend wants them. Call it once all layers have
 * their pages. */
enum status graph_take_wide(struct graph *g, struct fail *fail) MUST_USE;
struct kv_pages graph_pages(const struct graph *g, const struct layer *l);

#include "engine/graph_layers.h"
