/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint's tensors, summed up by the part of the model they belong to.
 * Thread: any.
 */
#pragma once
#include "model/model.h"

enum part {
	PART_EMBEDDING, PART_ATTENTION, PART_ROUTER, PART_EXPERTS, PART_FFN,
	PART_NORMS, PART_LM_HEAD, PART_OTHER,
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
		int64_t n_weights, n_bytes; /* as above */
	} format[QUANT_COUNT];
	int64_t n_tensors, n_weights, n_bytes, token_bytes;
};

/* Part of a tensor, by its name. */
enum part survey_part(const char *name);
void survey_model(const struct model *m, struct survey *out);
/* Of keys and values, a token of context, in elements of kv_type. */
int64_t survey_kv_bytes(const struct model_config *c, enum dtype kv_type);
/* What a token at `depth` reads of it: of layers with a window no more than that. */
int64_t survey_kv_read(const struct model_config *c, enum dtype kv_type, int64_t depth);
