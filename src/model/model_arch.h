/* SPDX-License-Identifier: Apache-2.0
 *
 * What each architecture's files have: rows of archs.def. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Groups of keys of config.json. */
enum {
	KEYS_ALL = 1,
	KEYS_EXPERTS = 2,
	KEYS_BIAS = 4,         /* attention_bias: of q, k, v and o */
	KEYS_WINDOW = 8,       /* sliding_window, all layers */
	KEYS_WINDOW_SOME = 16, /* where use_sliding_window, from max_window_layers on */
	KEYS_GROUPED = 32,     /* experts in groups, sigmoid routing, shared experts */
	KEYS_PARTIAL = 64,     /* partial_rotary_factor */
	KEYS_FFN = 128,        /* layers without experts */
	KEYS_DELTA = 256,      /* gated delta nets among the layers */
	KEYS_SHARED = 512,     /* one shared expert with a width of its own */
	KEYS_OSS = 1024,       /* gpt-oss: intermediate_size is the experts' */
	KEYS_WINDOW_LIST = 2048, /* sliding_window where layer_types says so */
	KEYS_MLA = 4096,
	KEYS_HEADS = 8192,     /* all heads of one size, head_dim */
	KEYS_QUERY_SCALE = 16384, /* query_pre_attn_scalar */
	KEYS_LOCAL_ROPE = 32768,  /* layers with a window rotate by a rope of their own */
	KEYS_OUT_BIAS = 1 << 16,  /* attention_bias: of q, k, v; attention_out_bias: of o */
	KEYS_SCALES = 1 << 17,    /* Granite's multipliers */
	KEYS_NO_ROPE = 1 << 18,   /* no_rope_layers */
	KEYS_LATE = 1 << 19,      /* llama_4_scaling_beta: late queries are longer */
};

/* Of its GGUF files. */
enum {
	GGUF_PAIRED = 1,     /* see gguf_model_is_paired */
	GGUF_EXPERTS = 2,
	GGUF_HYBRID = 4,     /* gated delta nets */
	GGUF_IN_TURN = 8,    /* their value heads: h is of key head h % Hk */
	GGUF_OSS = 16,
	GGUF_FOUR_NORMS = 32, /* those before and behind both parts of a layer */
};

struct model_arch {
	const char *model_type;
	const char *class;     /* of `architectures` in config.json */
	unsigned keys;
	bool qk_norm;          /* where use_qk_norm is not given */
	bool qkv_bias;
	bool norm_plus_one;    /* weights of norms are stored less 1 */
	bool scales_embedding; /* embeddings are multiplied by sqrt(hidden_size) */
	double theta;          /* where rope_theta is not given; 0: it must be */
	const char *defaults;  /* JSON, of keys that config.json may leave out; or NULL */
	/* A model within a model: where its config is ("": on top), its model_types, with
	 * blanks between, and how its tensors' names begin. */
	const char *within, *text_type;
	const char *prefix;    /* NULL: "" */
	const char *body;      /* NULL: "model." */
	const char *gguf;      /* general.architecture; NULL: it has no such files */
	unsigned in_gguf;
};

/* What the engine would need for an architecture that it has not got; NULL: it has it, or
 * nobody knows. name: of config.json or GGUF. */
const char *model_arch_needs(const char *name);

extern const struct model_arch model_archs[];
extern const size_t model_n_archs;
