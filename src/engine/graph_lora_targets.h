/* SPDX-License-Identifier: Apache-2.0
 *
 * Which linear layers of a layer take LoRA adapters, and which rows of an adapter's module each of
 * them is. For graph_lora.c alone. Thread: any.
 */
#pragma once
#include "engine/graph.h"

enum { LORA_TARGETS = 16 }; /* most of a layer */

/* Rows of a module: `n` of them, `each` neighbours every `pitch` rows from `first` on. */
struct lora_rows {
	int32_t n, first, each, pitch;
};

/* A linear layer W (N, K), or a part of it. */
struct lora_target {
	char name[80];          /* of the module that has its N rows; "": there is none */
	const struct weight *w; /* in graph_lora.c it stands for the target */
	int32_t n, k;
	/* The module that has it as some of its rows, of `all`, where adapters are trained on a
	 * model that has several in one; the rows follow each other as in W. "": none. */
	char whole[80];
	int32_t all, n_rows;
	struct lora_rows rows[3];
	/* Heads of head_linear have such rows of B. is_transposed: W^T is multiplied. */
	int32_t n_heads;
	bool is_transposed;
};

/* The targets of layer i; how many there are. */
int graph_lora_targets(const struct graph *g, int i, struct lora_target out[LORA_TARGETS]);
/* The row of the module `whole` that is row i of t. */
int32_t graph_lora_target_row(const struct lora_target *t, int32_t i);
