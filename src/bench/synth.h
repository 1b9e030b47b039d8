/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes checkpoints with the shapes of real models and random weights, to measure speed without
 * the real weights. The weights keep activations of order one and logits not flat, so that
 * kernels get numbers like those of a trained model. The text of such a model means nothing.
 * Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "model/formats/blocks.h"

/* Sizes of a model, with the letters of kernels/README.md. */
struct synth_shape {
	const char *name;
	const char *model_type; /* of config.json */
	int32_t n_layers, d_model, n_heads, n_kv_heads, head_dim;
	int32_t ffn_dim;                 /* 0: experts only */
	int32_t n_experts, n_used, expert_dim;
	int32_t n_vocab;
	bool is_tied;                    /* no lm_head of its own: the embedding is the output
					  * head */
	double theta;
	int32_t shared_dim;              /* width of a shared expert; 0: none */
	/* Every full_every-th layer has attention, with gates, the others the gated delta rule
	 * with n_key_heads and n_value_heads of width delta_dim. 0: all have attention. */
	int32_t full_every, n_key_heads, n_value_heads, delta_dim;
	/* Qwen4-Exp, in GGUF alone: n_streams residual streams, whose mixers have rank stream_rank;
	 * attention to what an indexer keeps; n-grams in the second layer, from a table of
	 * SYNTH_NGRAM_PARTS parts with n_ngrams rows or a few more; an MTP layer. 0: none. */
	int32_t n_streams, stream_rank, index_heads, index_dim, index_budget, index_ratio;
	int32_t n_ngrams, max_ctx;
};

#define SYNTH_ROUTER_DEV 1.5 /* deviation of the router's logits: experts are chosen unevenly */
#define SYNTH_DELTA_TAPS 4   /* taps of the convolution */
/* n-grams of 2 and of 3 tokens, with eight parts of the table for each. */
enum { SYNTH_NGRAM = 3, SYNTH_NGRAM_HEADS = 8,
       SYNTH_NGRAM_PARTS = (SYNTH_NGRAM - 1) * SYNTH_NGRAM_HEADS };
/* The deviation of the numbers of the output head. */
double synth_head_dev(const struct synth_shape *s);

/* The shape of this name, with its sizes from the model's published config.json; NULL if there
 * is none. */
const struct synth_shape *synth_shape_find(const char *name);
const struct synth_shape *synth_shape_at(size_t i); /* NULL past the last */

/* Mixes of block formats in which people download GGUF files. */
enum synth_mix {
	MIX_NONE, /* a folder with safetensors */
	MIX_Q4_0, MIX_Q4_K_M, MIX_Q5_K_M, MIX_Q6_K, MIX_Q8_0, MIX_IQ4_XS, MIX_UD_Q4_K_XL,
	MIX_MXFP4, MIX_NVFP4,
};

/* How the Linear layers except router and lm_head are stored. With a mix: in a GGUF file. group 0:
 * bf16. Else compressed-tensors int4, in groups of that many inputs. */
struct synth_format {
	int32_t group;
	bool is_asymmetric; /* with zero points */
	bool is_all;        /* embedding and lm_head are stored so too */
	enum synth_mix mix;
};

/* "bf16", "w4a16-g32", "w4a16-g128-asym", "w4a16-g32-all", "q4_k_m", ... */
bool synth_format_parse(const char *text, struct synth_format *out);

/* The values that a tensor is filled with. */
enum synth_fill {
	SYNTH_NORMAL,  /* bf16, mean 0, deviation `scale` */
	SYNTH_NEAR,    /* bf16, `scale` times 0.75 to 1.25 */
	SYNTH_NIBBLES, /* I32: eight nibbles of 1..15, mean 8, deviation SYNTH_NIBBLE_DEV */
	SYNTH_ZEROS,   /* I32: eight nibbles of 7..9 */
	SYNTH_SIZES,   /* I64: the sizes of another tensor */
	SYNTH_SAME,    /* F32: all are `scale` */
	SYNTH_BLOCKS,  /* blocks of `quant`: mean 0, deviation `scale` */
};
#define SYNTH_NIBBLE_DEV 2.5
/* Of the blocks of NVFP4: the factor of a tensor makes their deviation what it is to be. */
#define SYNTH_NVFP4_DEV 183.1

struct synth_tensor {
	char *name;
	enum dtype dtype; /* SYNTH_NORMAL and SYNTH_NEAR: F32 has numbers of bf16 */
	enum quant quant; /* SYNTH_BLOCKS */
	enum synth_fill fill;
	float scale;
	int n_dims;
	int64_t dim[3];
	int64_t sizes[2];
};

struct synth_plan {
	struct synth_tensor *tensor;
	size_t n, cap;
	int64_t n_bytes, align; /* each tensor takes a multiple of align bytes */
	bool is_empty; /* weights are holes in the file: zeros that take no disk space */
};

void synth_plan_make(const struct synth_shape *s, struct synth_format f,
		     struct synth_plan *out);
void synth_plan_deinit(struct synth_plan *p);
int64_t synth_tensor_bytes(const struct synth_tensor *t);

/* The same for a GGUF file, f.mix. */
void synth_gguf_plan(const struct synth_shape *s, struct synth_format f,
		     struct synth_plan *out);
/* Append what stands before the tensors: names, shapes and places, in GGUF also all keys. The
 * tokenizer of GGUF is the one in the folder `from`, with made-up words up to n_vocab ids. */
void synth_header(const struct synth_plan *p, struct buf *out);
enum status synth_gguf_header(const struct synth_shape *s, const struct synth_plan *p,
			      const char *from, struct buf *out, struct fail *fail) MUST_USE;

/* Appends the model's config.json. */
void synth_config(const struct synth_shape *s, struct synth_format f,
		  struct buf *out);
/* Writes tokenizer.json: the one in the file `from`, with made-up words up to n_vocab ids. No
 * text is encoded to these words. E_LIMIT if `from` has more than n_vocab ids. */
enum status synth_tokenizer(const char *from, int32_t n_vocab, const char *to,
			    struct fail *fail) MUST_USE;
/* The same, without a file: *out is the caller's. */
enum status synth_tokenizer_grow(const char *from, int32_t n_vocab, json_t **out,
				 struct fail *fail) MUST_USE;

/* Fills n blocks of `quant` with random numbers of deviation `dev`. random(ctx): 64 random
 * bits. */
void synth_blocks_fill(enum quant quant, double dev, uint64_t (*random)(void *ctx), void *ctx,
		       uint8_t *out, size_t n);

/* Writes header and tensors into one file. The same seed gives the same bytes. */
enum status synth_write(const struct synth_plan *p, const struct buf *header, uint64_t seed,
			const char *path, struct fail *fail) MUST_USE;
