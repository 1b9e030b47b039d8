/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums up a checkpoint's tensors by the part of the model that they belong to.
 * Thread: any.
 */
#pragma once
#include "model/model.h"

enum part {
	PART_EMBEDDING, PART_ATTENTION, PART_ROUTER, PART_EXPERTS, PART_FFN,
	PART_STREAMS, PART_NGRAMS, PART_NORMS, PART_LM_HEAD, PART_OTHER,
	PART_COUNT
};
const char *part_name(enum part p); /* "experts" */

struct survey {
	struct {
		int64_t n_tensors, n_weights;
		int64_t n_bytes;       /* scales and zero points included */
		int64_t token_bytes;   /* read for one decoded token */
	} part[PART_COUNT];
	struct {
		int64_t n_weights, n_bytes; /* by format; bytes as in `part` */
		int64_t stay_bytes; /* of n_bytes: tables of n-grams, which stay in the files */
	} format[QUANT_COUNT];
	int64_t n_tensors, n_weights, n_bytes, token_bytes;
};

/* The part that a tensor belongs to, by its name. */
enum part survey_part(const char *name);
void survey_model(const struct model *m, struct survey *out);
/* Bytes of keys and values for a token of context, with elements of kv_type. */
int64_t survey_kv_bytes(const struct model_config *c, enum dtype kv_type);
/* Bytes of keys and values that a token at `depth` reads. Layers with a window read at most the
 * window. */
int64_t survey_kv_read(const struct model_config *c, enum dtype kv_type, int64_t depth);
