/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of parts that few families have, and of what one family has alone. All are 0 in other
 * models. Lists have an element for each layer. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* An EAGLE-3 head: a layer that drafts for another model. */
enum { EAGLE_TAPS = 3 };
struct eagle_settings {
	bool is_head;
	int32_t vocab; /* tokens that it drafts from */
	int32_t dim;   /* width of the other model */
	/* Layers of the other model whose inputs it reads. taps[0] -1: 2, half of their number,
	 * and 3 less than their number. */
	int32_t taps[EAGLE_TAPS];
};

/* Factors of what a state space of Mamba-2 projects, and of what it adds to x; 0: 1. In its paper v
 * is x, k is B, q is C, and a is dt. */
struct delta_scales {
	float z, v, k, q, a, out;
};

/* Layers with a recurrent state: gated delta nets, state spaces, convolutions. */
struct delta_settings {
	int32_t k_heads, v_heads, k_dim, v_dim, conv_width;
	bool has_conv_bias;
	float gate_eps;       /* eps of the norm after a state space */
	bool heads_tiled;     /* value head h uses key head h % k_heads (else h / ratio) */
	bool sigmoid_gate;    /* delta nets: the gate is sigmoid(z) instead of silu(z) */
	bool skips_norm;      /* a state space's output is gated alone, without a norm */
	struct delta_scales by;
	/* Kimi delta attention: are a and z one projection each? g_min: lower bound of a decay's
	 * logarithm; 0: none */
	bool is_full;
	float g_min;
};

/* Multipliers of Falcon-H1, as config.json has them. families/falcon_h1_files.c distributes
 * them. */
struct falcon_h1_settings {
	float embed, logits, key, attention_in, attention_out, ssm_in, ssm_out;
	bool has_norm, norm_comes_first; /* the norm behind a state space; it is before the gate */
};

/* kv_lora > 0: MLA. A head's query and key have nope_dim elements without rope, then rope_dim
 * with rope; head_dim is the sum. */
struct mla_settings {
	int32_t kv_lora, nope_dim, rope_dim, v_dim;
	float eps;            /* of the norms after q_lora and kv_lora */
	bool is_interleaved;  /* rope rotates neighbours together, not the two halves */
	bool has_gate;        /* a gate for each head behind attention */
};

/* count > 0: number of residual streams. Gates of rank `rank` mix them for each part of a layer.
 * iters > 0: number of normalising steps, with eps, which make the gates doubly stochastic. */
struct stream_settings {
	int32_t count, rank, iters;
	float eps;
};

/* heads > 0: attention sees the `budget` positions that an indexer chooses, in blocks of `ratio`,
 * and the last block that is not yet full. is_pooled: gates make a key of a block's keys.
 * is_shared: layer i sees what the layer before it chose; NULL: no layer does. */
struct index_settings {
	int32_t heads, dim, budget, ratio;
	bool is_pooled, *is_shared;
};

/* DeepSeek-V4: layer i attends, beside its window, to compressed keys, each of of[i] positions. 0:
 * none; index.ratio: the indexer chooses index.budget of them; heavy_ratio: all of them. The
 * output has o_groups groups of rank o_lora. */
struct compress_settings {
	int32_t *of;          /* NULL: no layer has compressed keys */
	int32_t heavy_ratio, o_groups, o_lora;
	bool *is_hashed;      /* a table says which experts a token uses in layer i; NULL: in no
			       * layer */
};

/* Qwen4-Exp: some layers read n-grams of 2 to `size` tokens. Their tables have `heads` parts for
 * each length, of `vocab` rows or a few more. Together they give `dim` numbers a token. No n-gram
 * crosses a token `eos`. */
struct ngram_settings {
	int32_t *of;          /* index of layer i among those with n-grams, or -1; NULL: none */
	int32_t n_tables;     /* number of layers with n-grams */
	int32_t size, heads, dim, vocab, seed, eos;
	int32_t taps;         /* of the convolution after n-grams, `size` tokens apart */
	/* Factors of the hash and rows of the parts of the one table, if the file gives them
	 * (GGUF). NULL: they follow from seed and vocab. */
	int64_t *factors, *sizes;
};

struct gemma4_settings {
	/* Size and number of key heads in layers without a window; 0: as in other layers. */
	int32_t head_dim, kv_heads;
	bool keys_are_values; /* there k_proj makes keys and values, which differ by their norms */
	/* The last n_kv_shared layers have no keys and values of their own. They read those of
	 * the last earlier layer of their kind, with or without a window. */
	int32_t n_kv_shared;
	bool wide_mlp;        /* the dense parts of those last layers are twice as wide */
	bool has_experts;     /* beside the dense part of each layer */
	int32_t embed_dim, embed_rows; /* width and rows of per-layer embeddings; 0: none */
	float embed_scale;
};

struct llama4_settings {
	bool has_norms;       /* in layers with rope heads of q and k are normalised */
	/* attn_temp_every > 0: in layers without rotation, queries at position p are multiplied by
	 * 1 + attn_temp_scale * log(1 + floor((p + 1) / attn_temp_every)). */
	int32_t attn_temp_every;
	float attn_temp_scale;
};

/* Limits of the activation in layer i: of routed experts, and of the shared expert; in Step 3.5 of
 * the dense part, too. 0: none; NULL: no layer has one. */
struct limit_settings {
	float *routed, *others;
};

/* Of models with is_encoder. */
struct encoder_settings {
	bool is_bert;         /* a layer norm after each part; else norms as in Gemma 3 */
	bool exact_gelu;      /* GELU by erf, not the tanh form */
	bool is_ungated;      /* dense parts have no gate */
	int32_t n_places, first_place; /* number of learned positions, or 0, and the first
				        * token's position */
	int32_t n_types;      /* number of token types; every token has the first */
};
