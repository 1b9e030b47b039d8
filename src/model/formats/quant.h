/* SPDX-License-Identifier: Apache-2.0
 *
 * Which format each linear layer of a checkpoint has, and how each family of formats is
 * found among the tensors and decoded. Thread: any once parsed.
 */
#pragma once
#include <jansson.h>

#include "model/formats/blocks.h"
#include "model/tensors.h"

/* How the checkpoint stores a layer that quant_made_codes.c converts to a format of ours. */
enum quant_stored {
	STORED_SO,     /* as the format says: nothing to convert */
	STORED_BYTES,  /* compressed-tensors, Quark, LLM.int8: a byte for each integer */
	STORED_STREAM, /* compressed-tensors: `bits` for each integer, without gaps */
	STORED_GPTQ,   /* GPTQ: like STORED_STREAM, but along the inputs */
	STORED_WORDS,  /* Quark: eight integers a word */
	STORED_PAIRS,  /* ModelOpt: the integers of two outputs a byte */
	STORED_E2M3,   /* MXFP6: four numbers in three bytes */
	STORED_E3M2,
};

/* The quantization that the checkpoint declares for a layer. */
struct quant_choice {
	bool is_packed;     /* false: a plain tensor; the other fields are unused */
	enum quant quant;
	bool is_asymmetric; /* INT4, INT8: has stored zero points */
	int32_t group;      /* inputs per scale; 0: one scale per row, or, with STORED_PAIRS, as
			     * many scales as the file has */
	int32_t group_n;    /* FP8 in blocks: outputs per scale; 0: one scale for the tensor, or
			     * one for each output. STORED_BYTES in blocks: the same */
	int32_t zero_step;  /* GPTQ: as in struct weight */
	/* STORED_WORDS: true if the eight numbers of a word are two's complement; true if they
	 * are in order, not in AWQ's order. */
	bool is_signed, is_in_order;
	enum quant_stored stored;
	int32_t bits; /* STORED_STREAM, STORED_GPTQ: bits of an integer in the file */
};

struct quant_scheme;
/* Read `config`, the quantization_config, or NULL if there is none. A setting that this version
 * cannot read is E_UNSUPPORTED, with the key in fail->param. */
enum status quant_scheme_parse(const json_t *config, struct quant_scheme **out,
			       struct fail *fail) MUST_USE;
void quant_scheme_destroy(struct quant_scheme *s);
/* Find the format of the layer `name`. E_LIMIT if a pattern of the checkpoint takes too
 * long to match. */
enum status quant_scheme_find(const struct quant_scheme *s, const char *name,
			      struct quant_choice *out,
			      struct fail *fail) MUST_USE;
/* True if quant_made_all must convert this checkpoint's weights before they can be opened. */
bool quant_scheme_is_made(const struct quant_scheme *s);
/* Replace the weights of bitsandbytes and HQQ, and those whose quant_stored is not STORED_SO,
 * by weights in formats that halod has (quant_made.c). s NULL: only bitsandbytes and HQQ.
 * E_UNSUPPORTED, E_FORMAT, E_MISSING. */
enum status quant_made_all(struct tensors *ts, const struct quant_scheme *s,
			   struct fail *fail) MUST_USE;
/* Replace FP8 weights' scales that are bytes of e8m0 by the same numbers in BF16. */
void quant_fp8_exponents(struct tensors *ts);
bool quant_scheme_asks_fp8_kv(const struct quant_scheme *s);
/* Read a method that has one setting for all layers. is_known becomes false for any other
 * method. */
enum status quant_method_read(const json_t *config, const char *method,
			      struct quant_choice *out, bool *is_known,
			      struct fail *fail) MUST_USE;
/* Read one entry of config_groups of compressed-tensors. */
enum status quant_ct_read(const json_t *config, const json_t *group, struct quant_choice *out,
			  struct fail *fail) MUST_USE;
/* Read the settings that single layers have. Calls quant_scheme_add for each. */
enum status quant_own_read(const json_t *config, const char *method, struct quant_scheme *s,
			   struct fail *fail) MUST_USE;
/* Give the format *c to the layers with the name `target`, and to all layers inside a module of
 * this name. "re:" before `target` makes it a regular expression. */
enum status quant_scheme_add(struct quant_scheme *s, const char *target,
			     const struct quant_choice *c, struct fail *fail) MUST_USE;
/* Make *out FP8 with a scale for each 32 inputs. */
void quant_groups_of_32(struct quant_choice *out);
/* Read an FP8 block size [outputs, inputs]. */
enum status quant_block_read(const json_t *v, const char *key,
			     struct quant_choice *out, struct fail *fail) MUST_USE;
/* Return E_UNSUPPORTED with a message that names key and value. */
enum status quant_refuse(struct fail *fail, const char *key, const json_t *v);
/* Refuse a key whose value is present and not null, false, {} or []. */
enum status quant_need_nothing(const json_t *object, const char *key,
			       struct fail *fail) MUST_USE;

/* Which rows of which expert a weight is, in a tensor that holds all experts: (E, n_rows, K),
 * or (E, K, n_rows) if is_transposed. n_experts 0: rows of a tensor (n_rows, K). */
struct quant_part {
	int32_t expert, n_experts;
	int32_t n_rows, first, step; /* this weight is the rows first, first + step, ...
				      * of n_rows */
	bool is_transposed;
};

/* A weight to open. The opened tensors must have this shape and the format's types. */
struct quant_want {
	const struct tensors *tensors;
	const char *name; /* as in "model.layers.0.self_attn.q_proj" */
	int32_t n, k;
	struct quant_choice choice;
	const struct quant_part *part; /* NULL: no other weight is in the tensors */
	struct quant_views *views;     /* with part: memory for the views of the part */
};
struct quant_views {
	struct tensor at[6];
	int n;
};

/* Open the weight in the format of w->choice, or as plain numbers if the checkpoint has plain
 * numbers. */
enum status quant_open(const struct quant_want *w, struct weight *out,
		       struct fail *fail) MUST_USE;
/* True if the checkpoint has a weight of this name, in any format. */
bool quant_is_weight(const struct tensors *ts, const char *name);
/* The tensor that holds the numbers of this weight, in any format, or NULL. */
const struct tensor *quant_numbers(const struct tensors *ts, const char *name);
/* The format of tensor t, in a layer with choice c. *out_n_weights is the number of
 * weights in t, 0 for scales and the like. */
enum quant quant_of_tensor(const struct tensor *t, const struct quant_choice *c,
			   int64_t *out_n_weights);

/* Helpers for the formats' files. A list of types ends with DTYPE_COUNT. */
extern const enum dtype quant_floats[];
bool dtype_is_one_of(enum dtype t, const enum dtype *types);
bool quant_has(const struct tensors *ts, const char *name, const char *suffix);
/* The tensor <name>.<suffix>, or NULL. With a part, also tensors of all experts under
 * their own spellings: <name> for "weight", <name>_blocks for "weight_blocks". */
const struct tensor *quant_find(const struct quant_want *w, const char *suffix);
/* Like quant_find, with types checked and any shape. With a part, *out is a view of this
 * expert's rows. E_MISSING, E_FORMAT. */
enum status quant_tensor_typed(const struct quant_want *w, const char *suffix,
			       const enum dtype *types, const struct tensor **out,
			       struct fail *fail) MUST_USE;
/* Like quant_tensor_typed, and checks that the shape is (rows, cols). */
enum status quant_tensor(const struct quant_want *w, const char *suffix,
			 int64_t rows, int64_t cols, const enum dtype *types,
			 const struct tensor **out, struct fail *fail) MUST_USE;
/* The group of each input, from the I32 tensor <name>.<suffix> (K). *out is NULL if the
 * tensor is absent or the groups are in order. */
enum status quant_groups(const struct quant_want *w, const char *suffix, int32_t group,
			 const int32_t **out, struct fail *fail) MUST_USE;

/* The factor that multiplies a whole tensor in GGUF: <name>.scale, F32, one number or one for
 * each expert. *out is 0 if there is none. E_FORMAT: it is no valid factor. */
enum status quant_factor(const struct quant_want *w, double *out, struct fail *fail) MUST_USE;

/* Each format has a function that opens a weight, and one that decodes elements [k0, k1)
 * of a row. */
#define FORMAT(name) \
	enum status quant_##name##_open(const struct quant_want *w, struct weight *out, \
					struct fail *fail) MUST_USE; \
	void quant_##name##_decode(const struct weight *w, int32_t row, int32_t k0, \
				   int32_t k1, float *out);
FORMAT(plain)
FORMAT(ct)
FORMAT(awq)
FORMAT(gptq)
FORMAT(nvfp4)
FORMAT(fp8)
FORMAT(mxfp4)
FORMAT(blocks)
#undef FORMAT
/* The row of t->source that is row 0 of t. */
int32_t quant_made_row(const struct tensor *t);
/* Decode a weight that has a source: elements [k0, k1) of a row. */
void quant_made_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		       float *out);
