/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of any format of quant.def with random contents, for measuring. Every number is
 * finite and every sum stays small. Thread: any.
 */
#pragma once
#include "base/status.h"
#include "model/formats/blocks.h"

struct case_weight_opts {
	int32_t group; /* INT4, AWQ4, GPTQ: inputs that share a scale */
	bool is_asymmetric; /* INT4: with zero points. AWQ4 and GPTQ always have them */
	bool is_null;  /* no memory: the addresses are not to be followed */
};

/* A weight in host memory, which case_weight_deinit frees. */
struct case_weight {
	struct weight w;
	void *q, *scales, *zeros;
};

/* The next of a row of random numbers. *state is the caller's, and not 0 at first. */
uint64_t case_weight_bits(uint64_t *state);

/* Make a weight W (n, k). INT8 has one f32 scale a row, FP8 one for 128 by 128 weights.
 * E_UNSUPPORTED: k is not whole blocks. E_NOMEM. */
enum status case_weight_make(uint64_t *state, enum quant quant, int32_t n, int32_t k,
			     const struct case_weight_opts *o, struct case_weight *out,
			     struct fail *fail) MUST_USE;
void case_weight_deinit(struct case_weight *w);
/* Bytes that a weight of case_weight_make has in its checkpoint. */
size_t case_weight_bytes(enum quant quant, int32_t n, int32_t k,
			 const struct case_weight_opts *o);

/* Parse "nvfp4,q4_k" into *out, at most QUANT_COUNT formats, each once. Returns how many;
 * 0 and a message with the names of all formats if one is unknown or missing. */
int case_weight_formats(const char *list, enum quant *out, struct fail *fail);
