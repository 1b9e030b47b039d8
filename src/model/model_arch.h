/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of each architecture contain: the rows of archs.def. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Groups of keys in config.json. */
enum {
	KEYS_ALL = 1,
	KEYS_EXPERTS = 2,
	KEYS_BIAS = 4,         /* attention_bias: of q, k, v and o */
	KEYS_WINDOW = 8,       /* sliding_window, for all layers */
	KEYS_WINDOW_SOME = 16, /* use_sliding_window: only layers from max_window_layers on have
			        * a window */
	KEYS_GROUPED = 32,     /* expert groups, sigmoid routing, shared experts */
	KEYS_PARTIAL = 64,     /* partial_rotary_factor: only a part of a head rotates */
	KEYS_FFN = 128,        /* the model has layers without experts */
	KEYS_DELTA = 256,      /* some layers are gated delta nets */
	KEYS_SHARED = 512,     /* one shared expert, with its own width */
	KEYS_WINDOW_LIST = 2048, /* sliding_window, for the layers that layer_types lists */
	KEYS_MLA = 4096,
	KEYS_HEADS = 8192,     /* all heads of one size, head_dim */
	KEYS_QUERY_SCALE = 16384, /* query_pre_attn_scalar */
	KEYS_LOCAL_ROPE = 32768,  /* layers with a window rotate by a rope of their own */
	KEYS_OUT_BIAS = 1 << 16,  /* attention_bias: of q, k, v; attention_out_bias: of o */
	KEYS_SCALES = 1 << 17,    /* Granite's multipliers */
	KEYS_NO_ROPE = 1 << 18,   /* no_rope_layers */
	KEYS_ATTN_TEMP = 1 << 19, /* llama_4_scaling_beta: queries of late positions get a larger
				   * factor */
	KEYS_LOCAL = 1 << 20,     /* num_local_experts; an expert's width is intermediate_size */
	KEYS_SIGMOID = 1 << 21,   /* sigmoid routing; a bias counts for the choice of experts; no
				   * groups */
	KEYS_MAY_PARTIAL = 1 << 23, /* without partial_rotary_factor all of a head rotates */
	KEYS_SSM = 1 << 26,       /* some layers are state spaces of Mamba-2 */
	KEYS_BESIDE = 1 << 28,    /* shared_intermediate_size: width of the shared expert, or 0 */
	KEYS_WINDOW_ROPE = 1 << 22, /* if some layers have a window, only they rotate */
};

/* These are no enumerators, because their values do not fit an int. */
/* logit_scale: a factor of the logits */
#define KEYS_LOGIT_SCALE ((uint64_t)1 << 36)
/* mlp_bias: of gate, up and down */
#define KEYS_MLP_BIAS ((uint64_t)1 << 35)

/* Properties of the architecture's GGUF files. */
enum {
	GGUF_PAIRED = 1,     /* see gguf_model_is_paired */
	GGUF_EXPERTS = 2,
	GGUF_HYBRID = 4,     /* some layers are gated delta nets */
	GGUF_HEADS_TILED = 8,    /* delta nets: value head h uses key head h % Hk */
	GGUF_FOUR_NORMS = 32, /* norms before and after both attention and feed-forward */
	GGUF_ENCODER = 2048,  /* tokens see each other both ways */
	GGUF_FUSED = 64,      /* attn_qkv holds q, k and v; ffn_up holds gate and up */
};

struct model_family;

struct model_arch {
	const char *model_type;
	const char *class;     /* the name in `architectures` of config.json */
	const char *aligner;   /* the same of a forced aligner with the same body; or NULL */
	uint64_t keys;
	bool qkv_bias;
	bool rope_interleaved; /* rope rotates pairs of neighbours in a head, not the two halves */
	bool norm_plus_one;    /* norm weights are stored with 1 subtracted */
	bool scales_embedding; /* embeddings are multiplied by sqrt(hidden_size) */
	bool may_mtp;          /* the files may have an MTP layer (enum model_mtp) */
	double theta;          /* default of rope_theta; 0: rope_theta is required */
	const char *defaults;  /* JSON: defaults of keys that config.json may leave out; or NULL */
	/* A model within a model: the key of its config ("": on top), its model_types,
	 * separated by blanks, and the prefix of its tensors' names. */
	const char *within, *text_type;
	/* The model_type of the whole model, where another row has that name already. The
	 * model_type of its text then tells the rows apart, and this row's name is in no file.
	 * NULL: it is this row's name. */
	const char *outer;
	const char *prefix;    /* NULL means "" */
	const char *body;      /* NULL means "model." */
	/* Transformers' own files of the model, beside the published ones: text_config is on top,
	 * and tensors' names begin so. NULL: there are none of another form. */
	const char *flat_body;
	const char *gguf;      /* value of general.architecture; NULL: no GGUF support */
	unsigned in_gguf;
	const struct model_family *family; /* what its family has alone (model_family.h); or NULL */
};

/* What the engine would need for an architecture that it lacks, for a message. NULL: the
 * architecture is supported or unknown. name: as in config.json or GGUF. */
const char *model_arch_needs(const char *name);
/* Do Hugging Face's files of this model_type store rows of q and k in pairs, as rope_interleaved
 * says? */
bool model_arch_pairs(const char *model_type);

extern const struct model_arch model_archs[];
extern const size_t model_n_archs;
