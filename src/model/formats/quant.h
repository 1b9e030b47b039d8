/* SPDX-License-Identifier: Apache-2.0
 *
 * Which format each linear layer of a checkpoint is in, and how each family of
 * formats is found among the tensors and decoded. Thread: any once parsed.
 */
#pragma once
#include <jansson.h>

#include "model/formats/blocks.h"
#include "model/tensors.h"

/* How the checkpoint says a layer is quantized. */
struct quant_choice {
	bool is_packed;     /* false: a plain tensor, and no more is said */
	enum quant quant;
	bool is_asymmetric; /* INT4, INT8: has zero points */
	int32_t group;      /* inputs per scale; 0: one scale per row */
	int32_t group_n;    /* FP8 in blocks: outputs per scale; 0: by the tensor */
	int32_t zero_step;  /* GPTQ: as in struct weight */
};

struct quant_scheme;
/* `config` is quantization_config, NULL where there is none. What this version cannot
 * read is E_UNSUPPORTED, with the key in fail->param. */
enum status quant_scheme_parse(const json_t *config, struct quant_scheme **out,
			       struct fail *fail) MUST_USE;
void quant_scheme_destroy(struct quant_scheme *s);
/* E_LIMIT where a pattern of the checkpoint is too slow. */
enum status quant_scheme_find(const struct quant_scheme *s, const char *name,
			      struct quant_choice *out,
			      struct fail *fail) MUST_USE;
bool quant_scheme_asks_fp8_kv(const struct quant_scheme *s);
/* The methods that say one thing for all layers. is_known false: none of them. */
enum status quant_method_read(const json_t *config, const char *method,
			      struct quant_choice *out, bool *is_known,
			      struct fail *fail) MUST_USE;
/* A block [outputs, inputs] of FP8. */
enum status quant_block_read(const json_t *v, const char *key,
			     struct quant_choice *out, struct fail *fail) MUST_USE;
/* For both: E_UNSUPPORTED, naming key and value. */
enum status quant_refuse(struct fail *fail, const char *key, const json_t *v);
/* Refuses a key that is there and not null, false, {} or []. */
enum status quant_need_nothing(const json_t *object, const char *key,
			       struct fail *fail) MUST_USE;

/* Which part of a tensor that holds the weights of all experts: (E, n_rows, K), or
 * (E, K, n_rows) where is_transposed. */
struct quant_part {
	int32_t expert, n_experts;
	int32_t n_rows, first, step; /* rows first, first + step, ... of n_rows */
	bool is_transposed;
};

/* A weight that must be there, for its shape and types to be checked. */
struct quant_want {
	const struct tensors *tensors;
	const char *name; /* "model.layers.0.self_attn.q_proj" */
	int32_t n, k;
	struct quant_choice choice;
	const struct quant_part *part; /* NULL: the tensors are this weight's alone */
	struct quant_views *views;     /* with part: room for what is found */
};
struct quant_views {
	struct tensor at[6];
	int n;
};

/* In the format of w->choice, or plain where the numbers are. */
enum status quant_open(const struct quant_want *w, struct weight *out,
		       struct fail *fail) MUST_USE;
/* True where the checkpoint has a weight of this name, in any format. */
bool quant_is_weight(const struct tensors *ts, const char *name);
/* The format that a tensor is part of, where c is the choice for its layer, and how
 * many weights it holds (none: it is scales or the like). */
enum quant quant_of_tensor(const struct tensor *t, const struct quant_choice *c,
			   int64_t *out_n_weights);

/* For the formats. Types: a list that ends with DTYPE_COUNT. */
extern const enum dtype quant_floats[];
bool dtype_is_one_of(enum dtype t, const enum dtype *types);
bool quant_has(const struct tensors *ts, const char *name, const char *suffix);
/* <name>.<suffix>, or NULL. With a part also the spellings of tensors of all experts:
 * <name> for "weight", <name>_blocks for "weight_blocks". */
const struct tensor *quant_find(const struct quant_want *w, const char *suffix);
/* quant_find, of any shape; with a part, a view of what is this expert's and in the
 * part's rows. E_MISSING, E_FORMAT. */
enum status quant_tensor_typed(const struct quant_want *w, const char *suffix,
			       const enum dtype *types, const struct tensor **out,
			       struct fail *fail) MUST_USE;
/* The same, of the given shape. */
enum status quant_tensor(const struct quant_want *w, const char *suffix,
			 int64_t rows, int64_t cols, const enum dtype *types,
			 const struct tensor **out, struct fail *fail) MUST_USE;
/* <name>.<suffix>, I32 (K): the group of each input. NULL where it is absent or they lie
 * in order. */
enum status quant_groups(const struct quant_want *w, const char *suffix, int32_t group,
			 const int32_t **out, struct fail *fail) MUST_USE;
enum quant quant_plain(enum dtype t); /* of F32, F16, BF16 */

/* Open a weight in the format; decode elements [k0, k1) of a row of it. */
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
