/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a layer: structs of a part's weights in one layer, and of the scratch memory that
 * all layers share. Letters as in kernels/README.md. Thread: engine.
 */
#pragma once
#include "backend/backend.h"

struct attention {
	const float *rope; /* angles of the step: one of graph.rope */
	float scale;       /* factor of q . k */
	const float *q_norm, *k_norm;
	const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL: none */
	const float *sinks;
	struct weight q, k, v, o; /* q: with the gate, where there is one */
	int32_t head_dim, n_kv_heads;
	int32_t kv_layer;         /* layer whose keys and values it reads: itself, or one before */
	bool has_v;               /* else values are keys before their norm */
	int32_t window;           /* tokens it sees; 0: all */
	bool is_late;             /* true: queries at late positions are scaled up (rope.h) */
	int32_t n_freq;           /* pairs of a head that turn */
};

struct attention_scratch {
	void *q, *k, *v, *y;                /* (T, H or G, K) act */
	void *q_gate;                       /* (T, H, 2 K) act: q and its gate */
	/* (T, H or G, K): q and k before norms over all heads, or v before its norm */
	float *q_wide, *k_wide, *v_wide;
	const float *ones;                  /* (K) ones, for norms that have no weights */
};

struct mla {
	struct weight q_a, q_b, q; /* q alone if q_lora is 0 */
	struct weight kv_a, o;
	/* (H * (nope + v), kv_lora): each head's part for keys, then for values. is_split: apart,
	 * each in the layout in which it is used: keys (H * kv_lora, nope), values (H * v,
	 * kv_lora). */
	bool is_split;
	struct weight kv_b, k_b, v_b;
	const float *q_a_norm, *kv_a_norm;
};

struct mla_scratch {
	float scale, rope_scale; /* factor of q . k; a further one of its rotated part */
	float *q_a;              /* (T, q_lora) f32, for its norm */
	void *q_a_n;             /* (T, q_lora) act */
	void *q, *q_wide;        /* (T, H, K), (T, H, kv_lora + rope_dim) act */
	void *kv;                /* (T, kv_lora + rope_dim) act */
	void *y_wide, *y;        /* (T, H, kv_lora), (T, H, v_dim) act */
};

/* Makes one key of `ratio` positions (mixer_compress.c). */
struct compressor {
	int32_t dim, ratio, n_series;
	struct weight value, gate;  /* (n_series dim, D) */
	const float *bias;          /* (ratio, n_series dim) */
	const float *norm;          /* (dim) */
	void *values, *gates;       /* as in compress_args */
	size_t page_bytes;          /* bytes of one page of values, and of gates */
};

/* Attention to a window and compressed keys (mixer_compress.c). K: head_dim. */
struct compressed {
	struct weight q_a, q_b, kv; /* (q_lora, D), (H K, q_lora), (K, D) */
	struct weight o_a, o_b;     /* (o_groups o_lora, H K / o_groups), (D, o_groups o_lora) */
	const float *q_norm, *kv_norm, *sinks;
	const float *rope;          /* angles of the step: one of graph.rope */
	int32_t ratio;              /* positions of its blocks; 0: it has no blocks */
	struct compressor own, index;
	struct weight index_q, index_weights; /* (A I, q_lora), (A, D) */
	void *index_rows;           /* (n_pages, E, I) kv: the indexer's keys of blocks */
	size_t index_bytes;
};

struct compress_scratch {
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

struct delta_layer {
	bool is_fused;              /* true: the checkpoint has in_proj_qkvz */
	bool is_sharp;              /* q, k, v are of an input that is not rounded */
	bool ba_fused;              /* true: it has in_proj_ba, which is in b */
	struct weight qkv, z, b, a; /* fused: qkv is qkvz and b is ba */
	struct weight out;
	const float *conv;          /* (C, W) */
	const float *conv_bias;     /* (C), or NULL */
	const float *skip;          /* (Hv), for mixer_space only */
	const float *decay, *dt_bias, *norm;
	float *conv_state, *state;  /* (n_states, ...) */
	/* What the projections of a step with guesses leave, for replay: as delta_scratch's,
	 * with T = ENGINE_DRAFT_TOK. */
	void *kept_qkvz;
	float *kept_ba;
	float *kept_sums;
};

struct delta_scratch {
	void *qkvz;  /* (T, C + Hv V) act; split: qkv (T, C), then z (T, Hv V) */
	float *ba;   /* (T, 2 Hv) f32; split: b (T, Hv), then a */
	void *mixed; /* (T, C) act */
	void *y;     /* (T, Hv, V) act */
	/* For the sharp layer. pair: its norm (T, D) act, and then what rounding took from it
	 * (rms_norm.h). sums: the products of both with qkv (2 T, N). */
	void *pair;
	float *sums;
};

/* The layer that guesses (enum model_mtp). It is g->layers[n_layers]. T: max_batch_tok,
 * R: ENGINE_HIDDEN_ROWS. */
struct mtp {
	struct weight fuse;   /* (D, 2 D): of the embedding, then of the hidden state */
	struct weight head;   /* the first rows of graph.head, in its memory */
	const float *embed_norm, *hidden_norm, *out_norm;
	/* (R + T + R, D) act: hidden states (enum engine_hidden), after the last norm. */
	void *hidden;
	float *x, *h;         /* (T, D) */
	void *both;           /* (T, 2 D) act */
	float *host;          /* host (R, head.n); NULL: the backend finds the best */
};

/* What each layer reads of the token itself (Gemma 4). P: config.layer_embed. */
struct layer_embed {
	struct weight gate, out;  /* (P, D), (D, P) */
	const float *post_norm;   /* (D) */
};

struct layer_embed_scratch {
	struct weight table;      /* (V, L P) */
	struct weight project;    /* (L P, D) */
	const float *norm;        /* (P) */
	float *sum, *part;        /* (T, L, P) */
	void *all;                /* (T, L, P) act: of the step's tokens, for all layers */
	void *gate;               /* (T, P) act */
};

struct mlp {
	bool has_experts;
	struct weight gate, up, down; /* of the dense part, or of the shared expert */
	struct weight router, shared_router;
	struct weight latent_in, latent_out; /* (L, D), (D, L); L: config.latent_dim */
	const float *gate_bias, *up_bias, *down_bias; /* of the dense part; NULL: none */
	const float *router_bias;     /* (E) added for the choice (sigmoid), or NULL */
	const float *logit_bias;      /* (E), or NULL */
	const int32_t *fixed;         /* (V, U) experts of each token, or NULL */
	struct experts experts;
	const float *router_norm;     /* (D) norm of the router's input; experts_beside */
	const float *expert_scale;    /* (E), or NULL */
};

struct mlp_scratch {
	void *gate, *up;                /* (T, F) act, dense */
	float *logits, *weight;         /* (T, E), (T, U) */
	int32_t *id, *work;
	void *h;                        /* (T, U, expert F) act */
	void *shared_h;                 /* (T, 2 S) act */
	float *shared_scale;            /* (T) */
	/* experts_beside: (2, T, D) the sum of the two parts' outputs, then the experts' output
	 * before its norm. latent_dim: (T, L) the experts' output. */
	float *both;
	/* Of experts that read another input than the shared one: in (T, L or D) act, ones
	 * (T, U). */
	void *in;
	const float *ones;
	/* For struct moe_ahead, if experts are read from a file; else NULL. */
	void *ahead_x;                  /* (MOE_AHEAD_MAX_TOK, D) act */
	float *ahead_logits, *ahead_weight;
	int32_t *ahead_id;
};

/* Hyper-connections: the two of a layer, and the one after the last layer. S, R:
 * config.hyper_n, hyper_rank. */
enum hyper_part { HYPER_MIXER, HYPER_MLP, HYPER_LAST, HYPER_PARTS };
struct hyper {
	const float *norm;              /* (S, D) */
	struct weight down, up, inject; /* (R, S D), (S D, R), (S, S D); the last has no inject */
	/* With hyper_iters: ((2 + S) S, S D), and in the last part (S, S D); as in
	 * hyper_split_args. */
	struct weight fn;
	const float *scale, *base;
};

struct hyper_scratch {
	struct hyper last;
	float *x;            /* (T, S, D) the residual streams */
	void *n;             /* (T, S, D) act: their norms */
	float *wide;         /* (T, S, D) gates; keys and values of n-grams */
	float *low, *inject; /* (T, R), (T, S) */
	void *low_n;         /* (T, R) act */
	/* With hyper_iters: (T, (2 + S) S), (T, (1 + S) S), (T, D); ones (S D). */
	float *mix, *gates, *in;
	const float *ones;
};

/* An indexer; A: config.index_heads, K: index_dim. */
struct indexer {
	struct weight qk;                /* ((A + 1) K, D): queries, then the key */
	bool is_apart;                   /* true: instead q (A K, D) and k (K, D) */
	/* Or with MLA: (A K, q_lora), (K, D), (A, D) */
	struct weight q, k, weights;
	const float *q_norm, *k_norm;    /* (K) */
	const float *k_bias;             /* (K), with MLA */
	void *keys, *blocks;             /* as in index_keys_args */
	size_t key_bytes, block_bytes;   /* bytes of one page of keys, and of blocks */
};

struct indexer_scratch {
	void *qk, *turned;   /* (T, A + 1, K) act; turned: queries, normalised and rotated */
	void *key;           /* (T, K) act: the key, if it is not in qk (MLA, is_apart) */
	float *weight;       /* (T, A) weights of heads, with MLA */
	float *rope;         /* (T, n_rot/2, 2): of the first positions of blocks */
	float *scores;       /* (64, blocks of n_ctx) */
	int32_t *table, *last;
	const int32_t *each; /* (T + 1) 0, 1, 2 … */
};

/* N-grams of a layer (ngram.c); P: config.ngram_dim. */
struct ngram_part {
	int64_t size, start;
};
struct ngram {
	struct ngram_part *part;         /* host */
	int64_t factor[MODEL_MAX_NGRAM], n_rows;
	struct weight *shard;            /* host (n_shards) the table's rows */
	int32_t n_shards;
	struct weight key, value;        /* (S D, P), (D, P) */
	const float *key_norm, *query_norm, *conv_norm; /* (S, D) */
	const float *conv;               /* (S D, model_ngram_width) */
	float *state;                    /* (n_states, S D, model_ngram_width - 1) */
	size_t state_bytes;              /* bytes of one state */
	void *kept;                      /* (ENGINE_DRAFT_TOK, S D) act, for replay */
};

struct ngram_scratch {
	char *host;  /* shared (tables, T, P) act: rows of the step */
	float *row;  /* host (P) */
	void *rows;  /* (T, P) act */
	void *key;   /* (T, S, D) act: keys; then the convolution's output */
};

/* Of images (graph_sight.h). T: max_batch_tok. */
struct sight_scratch {
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
