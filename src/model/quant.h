/* SPDX-License-Identifier: Apache-2.0
 *
 * Which format each linear layer of a checkpoint is in, and how each family of
 * formats is found among the tensors and decoded. Thread: any once parsed.
 */
#pragma once
#include <jansson.h>

#include "model/blocks.h"
#include "model/tensors.h"

/* How the checkpoint says a layer is quantized. */
struct quant_choice {
	bool is_packed;     /* false: a plain tensor */
	bool is_asymmetric; /* has zero points */
	int32_t group;      /* inputs per scale; 0: one scale per row */
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

/* A weight that must be there, for its shape and types to be checked. */
struct quant_want {
	const struct tensors *tensors;
	const char *name; /* "model.layers.0.self_attn.q_proj" */
	int32_t n, k;
	struct quant_choice choice;
};

/* <name><suffix> of the given shape. E_MISSING, E_FORMAT; types: a list that ends
 * with DTYPE_COUNT. */
enum status quant_tensor(const struct quant_want *w, const char *suffix,
			 int64_t rows, int64_t cols, const enum dtype *types,
			 const struct tensor **out, struct fail *fail) MUST_USE;

enum status quant_plain_open(const struct quant_want *w, struct weight *out,
			     struct fail *fail) MUST_USE;
void quant_plain_decode(const struct weight *w, int32_t row, float *out);

enum status quant_ct_open(const struct quant_want *w, struct weight *out,
			  struct fail *fail) MUST_USE;
void quant_ct_decode(const struct weight *w, int32_t row, float *out);
