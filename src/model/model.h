/* SPDX-License-Identifier: Apache-2.0
 *
 * A model directory, opened: settings, tensors, tokenizer. Knows formats, no
 * arithmetic. Thread: any once open (immutable); opened by one.
 */
#pragma once
#include "base/arena.h"
#include "base/map.h"
#include "model/tensors.h"
#include "text/tokenizer.h"

enum quant {
#define QUANT(ident, name, bits) QUANT_##ident,
#include "model/quant.def"
#undef QUANT
	QUANT_COUNT
};
const char *quant_name(enum quant q);

/* One linear layer's weight W (N, K), y = W x, in its checkpoint format. Views
 * into the mapped file: nothing is owned, nothing copied.
 *   INT4: q is (N, K/8) uint32, nibble i of word j = element 8j+i, value
 *         nibble - zero; zero is 8 (zero_points NULL) or per group.
 *         scales (N, K/group) of scale_type; group K means one per row.
 *         zero_points: (N/8, K/group) uint32 packed along N (compressed-tensors).
 *   F32/F16/BF16: q is (N, K).  */
struct weight {
	enum quant quant;
	int32_t n, k, group;
	const void *q;
	const void *scales;
	enum dtype scale_type;
	const void *zero_points;
	const char *name; /* tensor name, for messages */
};

enum rope_kind { ROPE_NONE, ROPE_DEFAULT };

/* The settings of config.json that this version understands. */
struct model_config {
	char arch[48]; /* model_type */
	int32_t n_layers, d_model, n_heads, n_kv_heads, head_dim;
	int32_t ffn_dim;      /* dense layers */
	int32_t n_experts, n_experts_used, expert_dim; /* 0: no experts */
	bool norm_topk;       /* router weights renormalised over the chosen */
	int32_t sparse_step;  /* layer i has experts iff (i+1) % sparse_step == 0 … */
	int32_t *dense_layers; /* … and i is not in mlp_only_layers */
	int32_t n_dense_layers;
	int32_t n_vocab, max_ctx;
	float norm_eps, rope_theta;
	enum rope_kind rope;
	bool qkv_bias, tied_embeddings;
	int32_t bos_id; /* -1: none */
};

struct generation_defaults {
	float temperature, top_p, min_p, repetition_penalty; /* NAN: not given */
	int32_t top_k;                                       /* -1: not given */
	int32_t eos_ids[8];
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
	struct quant_scheme *scheme; /* quantization_config; opaque */
	struct tokenizer *tokenizer;
	char *chat_template; /* "" if none */
	char *bos_text, *eos_text; /* spelled, "" if none: template variables */
	struct arena arena;
};

/* Open everything: E_IO, E_FORMAT, E_MISSING, E_UNSUPPORTED with the file and
 * key or tensor at fault. */
enum status model_open(const char *dir, const struct model_opts *opts,
		       struct model **out, struct fail *fail) MUST_USE;
void model_close(struct model *m);

/* The weight called `name` ("model.layers.0.self_attn.q_proj") in whatever
 * format the checkpoint has it, checked to be (n, k), in bounds and of the right
 * dtypes. */
enum status model_weight(const struct model *m, const char *name, int32_t n,
			 int32_t k, struct weight *out,
			 struct fail *fail) MUST_USE;
/* A plain vector such as a norm: `n` values as float32, in the model's arena. */
enum status model_vector(struct model *m, const char *name, int32_t n,
			 const float **out, struct fail *fail) MUST_USE;
bool model_has(const struct model *m, const char *name);

/* Decode rows [n0, n1) of w to float32 (n1-n0, K): the definition of the
 * format. */
void weight_decode(const struct weight *w, int32_t n0, int32_t n1, float *out);
size_t weight_bytes(const struct weight *w); /* of q, scales and zero points */
