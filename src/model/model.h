/* SPDX-License-Identifier: Apache-2.0
 *
 * An opened model directory or GGUF file: settings, tensors, tokenizer. Handles file
 * formats and does no arithmetic. Thread: one thread opens it; afterwards any thread
 * reads it.
 */
#pragma once
#include "base/arena.h"
#include "model/formats/activation.h"
#include "model/formats/blocks.h"
#include "model/model_parts.h"
#include "model/tensors.h"
#include "tokenizer/tokenizer.h"

#define MODEL_MAX_EOS 64
#define MODEL_MAX_ROPES 2
#define MODEL_MAX_NGRAM 8 /* tokens of the longest n-gram */

/* How rope frequencies are scaled for long contexts (engine/rope.c). */
enum rope_kind {
	ROPE_NONE, ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_FACTORS,
	ROPE_PART, /* "proportional": only the first pairs rotate */
	ROPE_LONG  /* "longrope": factors for short contexts, and others for long ones */
};

struct rope {
	enum rope_kind kind;
	double theta;
	/* The following are 0 for kinds that do not use them. */
	double factor;
	double original_ctx;     /* context length of the first training, in tokens */
	double low_freq, high_freq;   /* ROPE_LLAMA3: low_freq_factor, high_freq_factor */
	double beta_fast, beta_slow;  /* ROPE_YARN: rotations within original_ctx */
	double attention_factor; /* factor of cos and sin; 0: derived from `factor` */
	double mscale, mscale_all;
	/* ROPE_YARN: queries are multiplied by 1 + attn_temp_beta * log(1 + floor(position /
	 * original_ctx)); 0: they are not. */
	double attn_temp_beta;
	bool is_exact;           /* ROPE_YARN: bounds not rounded to whole pairs */
	/* ROPE_FACTORS, ROPE_LONG: (n_factors), a divisor for each pair. ROPE_LONG uses
	 * long_factors when the context is longer than original_ctx. */
	const float *factors, *long_factors;
	int32_t n_factors;       /* n_rot/2 */
	double part;             /* ROPE_PART: the part of the pairs that rotates, from the first
				  * on */
	int32_t n_rot;           /* elements of a head that rotate; 0: n_rot of the model */
};

enum layer_part { PART_MIXER = 1, PART_MLP = 2 };

/* Where the tensors of the MTP layer are: a layer after the last one, which predicts the token
 * after the next (multi-token prediction). */
enum model_mtp {
	MTP_NONE,
	MTP_APART, /* mtp.fc (Qwen4-Exp: mtp.fc_hidden), mtp.layers.0.* (Qwen) */
	MTP_LAYER, /* model.layers.<n_layers>.eh_proj and so on (DeepSeek, GLM, GGUF) */
};

/* The settings of config.json that this version uses. */
struct model_config {
	char arch[48]; /* model_type of config.json */
	const char *prefix; /* first part of tensor names; "" or "thinker." */
	const char *body;   /* second part of tensor names, except lm_head's: "model." */
	int32_t n_layers, d_model, n_heads, n_kv_heads, head_dim;
	int32_t *heads_of;    /* (L) query heads of layer i; NULL: n_heads */
	int32_t gate_span;    /* attention's output has a gate for so many channels; 0: none */
	int32_t ffn_dim;      /* width of dense feed-forward layers */
	int32_t n_experts, n_experts_used, expert_dim; /* n_experts 0: none */
	bool norm_topk;       /* weights of the chosen experts are scaled to sum 1 */
	/* n_groups > 0: sigmoid routing in groups with a bias (kernels/ops/moe_router.h). */
	int32_t n_groups, n_groups_used;
	float routed_scale;
	int32_t shared_dim;   /* width of the shared expert, which all tokens use; 0: none */
	int32_t latent_dim;   /* > 0: width of the routed experts' input and output; two
			       * projections around the experts convert to and from d_model
			       * (Nemotron 3 Super) */
	struct activation act; /* activation of dense layers and routed experts */
	int32_t sparse_step;  /* layer i has experts iff (i+1) % sparse_step == 0 … */
	int32_t *dense_layers; /* … and i is not in this list (mlp_only_layers) */
	int32_t n_dense_layers;
	/* (L) bits of enum layer_part: which parts layer i has; NULL: all layers have both. */
	uint8_t *layer_parts;
	int32_t n_vocab, max_ctx;
	int32_t n_classes;    /* > 0: the output head tells so many classes of a token, and no
			       * tokens: a forced aligner (src/align) */
	float norm_eps;
	float embed_scale, logit_scale; /* factors of the embeddings and of the logits */
	float residual_scale; /* from config.json: factor of what each part of a layer adds to
			       * its input */
	float query_scalar;   /* q . k is divided by the root of this; 0: of head_dim */
	/* Layer i rotates by ropes[rope_of[i]]. */
	struct rope ropes[MODEL_MAX_ROPES];
	int32_t n_ropes;
	uint8_t *rope_of;     /* (L); NULL: all layers use ropes[0] */
	int32_t n_rot;        /* elements of a head that rotate, from the first on */
	bool *is_unrotated;   /* (L) layers without rotation; NULL: none */
	bool norm_plus_one;   /* the file stores the weights of norms minus 1 … */
	bool last_norm_whole; /* … but those of the last norm */
	float post_eps;       /* eps of the norms behind the parts of a layer; 0: norm_eps */
	float logit_cap;      /* logits_cap_args.cap; 0: none */
	bool qk_norm;         /* use_qk_norm of GLM-4-MoE: each head of q and k is normalised */
	bool qkv_bias, o_bias, mlp_bias, tied_embeddings; /* mlp: of dense feed-forwards */
	bool has_head;        /* true: the model writes text; false: it is a body without output
			       * head, an embedding model */
	/* Where is_windowed, a token attends to the last `window` tokens, itself included. */
	int32_t window;       /* 0: no layer has a window */
	bool *is_windowed;    /* (L); NULL: no layer has a window */
	int32_t window_pattern; /* from config.json, used if layer_types is absent */
	/* A linear layer keeps a recurrent state, not keys and values … */
	bool *is_linear;      /* (L); NULL: no layer is linear */
	int32_t n_linear;     /* number of linear layers */
	bool linear_attends;  /* … and beside the state keys and values: it has attention too */
	int32_t q_lora;       /* rank of q's two projections (MLA, DeepSeek-V4); 0: q is one */
	struct delta_settings delta;
	struct eagle_settings eagle;
	struct mla_settings mla;
	struct stream_settings streams;
	struct index_settings index;
	struct compress_settings compress;
	struct ngram_settings ngram;
	struct falcon_h1_settings falcon_h1;
	struct gemma4_settings gemma4;
	struct llama4_settings llama4;
	struct limit_settings limits;
	/* A token attends to later tokens too. `window` then counts the tokens to each side,
	 * itself included. Such a model gives embeddings (src/embed/encoder.h) and writes no
	 * text. */
	bool is_encoder;
	struct encoder_settings encoder;
	enum model_mtp mtp;
	const char *mtp_unlike; /* a setting with which its MTP layer is not used; or NULL */
	int32_t bos_id; /* -1: none */
	int32_t eos_ids[MODEL_MAX_EOS]; /* from config.json; see generation_defaults */
	int n_eos;
	enum dtype dtype; /* type of the original weights; tensors have their own */
};

/* Bytes of a token in the KV cache of layer i, and of all layers. With int8, scales are
 * included (kernels/ops/kv_bytes.h). */
int64_t model_layer_kv_bytes(const struct model_config *c, int32_t i, enum dtype type);
int64_t model_kv_bytes(const struct model_config *c, enum dtype type);

#include "model/model_sizes.h"

/* Settings of generation_config.json. Generation ends at any of eos_ids: the ids of
 * generation_config.json and of config.json, and those of model_ends.h. */
struct generation_defaults {
	float temperature, top_p, min_p, repetition_penalty; /* NAN: not given */
	int32_t top_k;                                       /* -1: not given */
	int32_t eos_ids[MODEL_MAX_EOS];
	int n_eos;
};

struct model_opts {
	bool use_mmap;
	bool takes_head; /* an EAGLE-3 head is what is asked for; else it is refused */
	/* Called now and then with the bytes of the files that are mapped or read so far, and
	 * of all files. A mapped file's bytes count at once, though none is read yet. */
	void (*on_progress)(void *ctx, size_t done, size_t total);
	void *ctx;
};

struct model {
	char *dir;
	struct model_config config;
	struct generation_defaults defaults;
	struct tensors *tensors;
	bool is_mapped; /* the tensors' files are mapped */
	bool has_vision, has_audio; /* config.json has a vision_config, an audio_config */
	struct quant_scheme *scheme; /* parsed quantization_config */
	struct tokenizer *tokenizer;
	char *chat_template; /* "" if none */
	char *bos_text, *eos_text; /* text of the tokens, "" if none; variables of the
				    * template */
	const char *tokenizer_note; /* what an operator should know of it; NULL: nothing */
	bool is_paired;  /* true: rope rotates neighbours, so opening q and k reorders their rows
			  * (gguf_model_is_paired) */
	struct arena *repacked; /* memory of the reordered rows */
	struct pool *pool;      /* threads that reorder; NULL if not needed */
	struct arena arena;
};

/* Open a model. opts NULL means: mmap, no progress. `dir` is a Hugging Face folder; a
 * GGUF file (any part of a split one) or a folder with one; or a name in a hub's cache
 * (hub.h). Tensors of GGUF files get Hugging Face's names. E_IO, E_FORMAT, E_MISSING,
 * E_UNSUPPORTED name the file and the key or tensor at fault. */
enum status model_open(const char *dir, const struct model_opts *opts,
		       struct model **out, struct fail *fail) MUST_USE;
void model_close(struct model *m);

/* Columns [k half, k half + k) of a weight (n, 2 k), copied to memory of the model. k is even. In
 * the file's format where each half of a row is whole blocks, else in F32. E_MISSING, E_FORMAT. */
enum status model_weight_half(struct model *m, const char *name, int32_t n, int32_t k, int half,
			      struct weight *out, struct fail *fail) MUST_USE;
/* The weight called `name` ("model.layers.0.self_attn.q_proj") in the checkpoint's
 * format. Its shape (n, k), bounds and dtypes are checked. */
enum status model_weight(const struct model *m, const char *name, int32_t n,
			 int32_t k, struct weight *out,
			 struct fail *fail) MUST_USE;
/* Where files store rows of q and k in pairs: the row in the file of row `row`, in the order in
 * which weights are opened. In each head, row i of the first half is stored at 2 i. Row i of the
 * second half is at 2 i + 1. */
int32_t model_stored_row(int32_t row, int32_t head_dim);
/* Bytes of the weights that model_weight reorders in memory of its own, on all CPUs. Only
 * one thread at a time may open such weights. */
size_t model_repack_bytes(const struct model *m);
/* A plain vector such as a norm: n values as float32, allocated in the model's arena. */
enum status model_vector(struct model *m, const char *name, int32_t n,
			 const float **out, struct fail *fail) MUST_USE;
/* Like model_vector for shape (rows, cols). Dimensions of 1 between and around are
 * allowed. */
enum status model_matrix(struct model *m, const char *name, int32_t rows, int32_t cols,
			 const float **out, struct fail *fail) MUST_USE;
/* A tensor (rows, cols) of integers below `most`, all different within a row; in the model's
 * arena. */
enum status model_choices(struct model *m, const char *name, int32_t rows, int32_t cols,
			  int32_t most, int32_t **out, struct fail *fail) MUST_USE;
bool model_converted(const struct model *m, const char *name); /* part of a converted layer */
/* True if the tensor belongs to this model. False for tensors of another model in the
 * same files, and for layers past the last one, which predict several tokens ahead. */
bool model_reads(const struct model *m, const char *name);
/* Part of the names of n-gram tables. Steps read rows of these tables from the model's files. */
#define MODEL_NGRAM_TABLE ".ngram_embedding."
/* Bytes of all tensors that belong to the model, with scales and zero points, without n-gram
 * tables. */
int64_t model_weight_bytes(const struct model *m);
/* Bytes of the MTP layer's tensors that are used, which model_weight_bytes leaves out; 0: no
 * such layer. */
int64_t model_mtp_bytes(const struct model *m);
/* The part of model_weight_bytes that belongs to routed experts. */
int64_t model_expert_bytes(const struct model *m);
/* True if the checkpoint asks for an FP8 KV cache. No backend has one, so the cache gets
 * a wider type. */
bool model_asks_fp8_kv(const struct model *m);
bool model_may_lack(const struct model *m); /* single biases: in GGUF only the tensors tell */
/* True if there is a tensor of this name, or a weight of this name in any format. */
bool model_has(const struct model *m, const char *name);
/* The format that tensor t is part of. *out_n_weights is its number of weights, 0 for
 * scales and the like. */
enum quant model_tensor_quant(const struct model *m, const struct tensor *t,
			      int64_t *out_n_weights);
/* Number of trained parameters: weights counted as before quantization, without scales
 * and other data of the formats. */
int64_t model_n_params(const struct model *m);
