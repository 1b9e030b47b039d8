/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /infill in llama.cpp's shape: editors ask it for the text at the cursor. Thread: any.
 */
#pragma once
#include "tokenizer/tokenizer.h"

/* Special tokens of a model that fills in the middle; -1: the model has no such token. */
struct fim {
	int32_t prefix, suffix, middle;
	int32_t repo, file; /* stand before a repository's name, before a file's name */
	int32_t stops[8];   /* end a text, besides the model's own end tokens */
	int n_stops;
};
/* Finds the tokens by the names that models give them. */
void infill_find_tokens(const struct tokenizer *t, struct fim *out);
