/* SPDX-License-Identifier: Apache-2.0
 *
 * A model directory or GGUF file, opened: settings, tensors, tokenizer. Knows formats, no
 * arithmetic. Thread: any once open (immutable); opened by one.
 */
#pragma once
#include "base/arena.h"
#include "model/formats/activation.h"
#include "model/formats/blocks.h"
#include "model/tensors.h"
#include "tokenizer/tokenizer.h"

#define MODEL_MAX_EOS 8
#define MODEL_MAX_ROPES 2

/* How the angles of the rotation are stretched (engine/rope.c). */
enum rope_kind {
	ROPE_NONE, ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_FACTORS
};

struct rope {
	enum rope_kind kind;
	double theta;
	/* What follows is 0 where the kind does not have it. */
	double factor;
	double original_ctx;     /* tokens the model was first trained on */
	double low_freq, high_freq;   /* ROPE_LLAMA3: low_freq_factor, … */
	double beta_fast, beta_slow;  /* ROPE_YARN: turns in original_ctx */
	double attention_factor; /* of cos and sin both; 0: by factor */
	double mscale, mscale_all;
	/* ROPE_YARN: queries are multiplied by 1 + late_beta * log(1 + floor(position /
	 * original_ctx)); 0: they are not. */
	double late_beta;
	bool is_exact;           /* ROPE_YARN: bounds not rounded to whole pairs */
	const float *factors;    /* ROPE_FACTORS: (n_rot/2), of each pair */
};

/* The settings of config.json that this version understands. */
struct model_config {
	char arch[48]; /* model_type */
	const char *prefix; /* of the names of its tensors; "" or "thinker." */
	const char *body;   /* after that, of all but lm_head: "model." */
	int32_t n_layers, d_model, n_heads, n_kv_heads, head_dim;
	int32_t ffn_dim;      /* dense layers */
	int32_t n_experts, n_experts_used, expert_dim; /* 0: no experts */
	bool norm_topk;       /* router weights renormalised over the chosen */
	/* n_groups > 0: sigmoid routing in groups with a bias (kernels/ops/moe_router.h). */
	int32_t n_groups, n_groups_used;
	float routed_scale;
	int32_t shared_dim;   /* width of the expert that every token sees; 0: none */
	bool shared_router;   /* which a sigmoid weighs */
	bool router_bias;     /* of the logits */
	bool expert_bias;
	struct activation act; /* of dense layers and routed experts */
	int32_t sparse_step;  /* layer i has experts iff (i+1) % sparse_step == 0 … */
	int32_t *dense_layers; /* … and i is not in mlp_only_layers */
	int32_t n_dense_layers;
	int32_t n_vocab, max_ctx;
	float norm_eps;
	float embed_scale;    /* embeddings are multiplied by it */
	float logit_scale;    /* and logits */
	float residual_scale; /* of config.json: what each part of a layer adds */
	float query_scalar;   /* q . k is divided by its root; 0: by that of head_dim */
	/* Layer i rotates by ropes[rope_of[i]]. */
	struct rope ropes[MODEL_MAX_ROPES];
	int32_t n_ropes;
	uint8_t *rope_of;     /* (L); NULL: all by the first */
	int32_t n_rot;        /* elements of a head that are rotated, the first */
	bool *is_unrotated;   /* (L) layers without rotation; NULL: none */
	bool rope_interleaved; /* MLA: neighbours are rotated together, not halves */
	bool norm_plus_one;   /* weights of norms are stored less 1 */
	bool qk_norm;         /* of each head of q and k */
	bool gated_attention; /* beside each head of q is a gate of the output */
	bool has_sinks;       /* a logit a head that gives no value */
	bool qkv_bias, o_bias, tied_embeddings;
	/* A layer that is_windowed sees the last `window` tokens, itself included. */
	int32_t window;       /* 0: no layer is */
	bool *is_windowed;    /* (L); NULL: none */
	int32_t window_pattern; /* of config.json, in the place of a list of layers */
	/* A layer that is_linear keeps a state, not keys and values: a gated delta net. */
	bool *is_linear;      /* (L); NULL: none */
	int32_t n_linear;     /* how many are */
	int32_t delta_k_heads, delta_v_heads, delta_k_dim, delta_v_dim, conv_width;
	bool delta_in_turn;   /* value head h is of key head h % delta_k_heads */
	/* kv_lora > 0: MLA. A head's query and key are nope_dim elements and rope_dim that
	 * turn, head_dim together. */
	int32_t q_lora;       /* 0: q is one projection */
	int32_t kv_lora, nope_dim, rope_dim, v_dim;
	float lora_eps;       /* of the norms behind q_lora and kv_lora */
	int32_t bos_id; /* -1: none */
	int32_t eos_ids[MODEL_MAX_EOS]; /* of config.json; see generation_defaults */
	int n_eos;
	enum dtype dtype; /* the model was made in; tensors say their own */
};

/* Numbers in the cache a token takes, in all layers. */
static inline int64_t model_kv_numbers(const struct model_config *c)
{
	int64_t n = c->kv_lora > 0 ? c->kv_lora + c->rope_dim
				   : (int64_t)2 * c->n_kv_heads * c->head_dim;
	return (c->n_layers - c->n_linear) * n;
}

/* Channels of a gated delta net's convolution: queries, keys and values. */
static inline int64_t model_delta_channels(const struct model_config *c)
{
	return (int64_t)2 * c->delta_k_heads * c->delta_k_dim +
	       (int64_t)c->delta_v_heads * c->delta_v_dim;
}

/* Numbers (f32) of a sequence's recurrent state, in all layers. */
static inline int64_t model_state_numbers(const struct model_config *c)
{
	return c->n_linear * ((int64_t)c->delta_v_heads * c->delta_v_dim * c->delta_k_dim +
			      model_delta_channels(c) * (c->conv_width - 1));
}

/* generation_config.json. The end of text is any of eos_ids: those given there
 * and those of config.json. */
struct generation_defaults {
	float temperature, top_p, min_p, repetition_penalty; /* NAN: not given */
	int32_t top_k;                                       /* -1: not given */
	int32_t eos_ids[MODEL_MAX_EOS];
	int n_eos;
};

struct model_opts {
	bool use_mmap;
	/* Called now and then while loading, with bytes done and total. */
	void (*on_progress)(void *ctx, size_t done, size_t total);
	void *ctx;
};

struct model {
	char *dir;
	struct model_config config;
	struct generation_defaults defaults;
	struct tensors *tensors;
	bool is_mapped; /* the tensors are mapped files */
	struct quant_scheme *scheme; /* quantization_config; opaque */
	struct tokenizer *tokenizer;
	char *chat_template; /* "" if none */
	char *bos_text, *eos_text; /* spelled, "" if none: template variables */
	bool is_paired;  /* rows of q and k are put in order when they are opened … */
	struct arena *repacked; /* … and are here, moved … */
	struct pool *pool;      /* … by these; NULL where none are */
	struct arena arena;
};

/* Opens a model, with mmap and without progress where opts is NULL. `dir` is a folder of
 * Hugging Face; or a GGUF file, any part of a split one, or a folder with one of those; or
 * a name in a hub's cache (hub.h). Tensors of GGUF are called as Hugging Face calls them.
 * E_IO, E_FORMAT, E_MISSING, E_UNSUPPORTED with the file and the key or tensor at fault. */
enum status model_open(const char *dir, const struct model_opts *opts,
		       struct model **out, struct fail *fail) MUST_USE;
void model_close(struct model *m);

/* The weight called `name` ("model.layers.0.self_attn.q_proj") in whatever
 * format the checkpoint has it, checked to be (n, k), in bounds and of the right
 * dtypes. */
enum status model_weight(const struct model *m, const char *name, int32_t n,
			 int32_t k, struct weight *out,
			 struct fail *fail) MUST_USE;
/* Bytes of weights that model_weight puts into another order, in memory of their own, by
 * all CPUs; those are opened by one thread at a time. */
size_t model_repack_bytes(const struct model *m);
/* A plain vector such as a norm: `n` values as float32, in the model's arena. */
enum status model_vector(struct model *m, const char *name, int32_t n,
			 const float **out, struct fail *fail) MUST_USE;
/* The same of (rows, cols); dimensions of 1 between and around them are allowed. */
enum status model_matrix(struct model *m, const char *name, int32_t rows, int32_t cols,
			 const float **out, struct fail *fail) MUST_USE;
/* A tensor of this name belongs to the model: not to another model in the same files, and
 * not to a layer behind the last, which would guess at further tokens. */
bool model_reads(const struct model *m, const char *name);
/* Bytes of all tensors that belong to the model, with scales and zero points. */
int64_t model_weight_bytes(const struct model *m);
/* The checkpoint asks for a KV cache in FP8, which no backend has here: it gets one of more
 * bits. */
bool model_asks_fp8_kv(const struct model *m);
/* Is there a tensor of this name, or a weight called so in any format? */
bool model_has(const struct model *m, const char *name);
/* The format t is part of, and how many weights it holds (0: scales or the like). */
enum quant model_tensor_quant(const struct model *m, const struct tensor *t,
			      int64_t *out_n_weights);
/* Numbers the model was trained to: the elements of its weights as they were before
 * quantization, without scales and other helpers of the formats. */
int64_t model_n_params(const struct model *m);
