/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /infill as llama.cpp has it, which editors ask for the text at the cursor.
 * Thread: any.
 */
#pragma once
#include "tokenizer/tokenizer.h"

/* Tokens of a model that fills in the middle; -1: it has none. */
struct fim {
	int32_t prefix, suffix, middle;
	int32_t repo, file; /* before the name of a repository, of a file */
	int32_t stops[8];   /* what ends a text, beside the model's own end */
	int n_stops;
};
/* By the names that models have for them. */
void infill_find_tokens(const struct tokenizer *t, struct fim *out);
