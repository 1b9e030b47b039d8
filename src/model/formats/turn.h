/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices that turn what a linear layer reads and what it writes (transform_config of
 * compressed-tensors): x becomes x R before the product, its result y becomes y R. Thread:
 * any.
 */
#pragma once
#include <stdint.h>

/* The longest line of a fast transform, in numbers. */
#define TURN_MAX_LINE 8192

/* R (n, n) for each block of n neighbouring numbers:
 *
 *   R[i][j] = scale before[i] B[i / L][j / L] (-1)^(ones of (i % L) & (j % L)) after[j]
 *
 * where L = n / order is a power of two, up to TURN_MAX_LINE, and B is `base`. So a Hadamard
 * matrix of any order, with signs, is a small B and a fast transform; with order n R is any
 * matrix. */
struct turn_matrix {
	int32_t n, order;
	const float *base;           /* (order, order); NULL: order and it are 1 */
	const float *before, *after; /* (n), or NULL: ones */
	float scale;
};

/* Memory for as many tokens as a product may have, which all weights of a model share. */
struct turn_memory {
	void *in;   /* (T, K) act */
	float *out; /* (T, N) */
};

/* The two turns of a weight; NULL: none. */
struct weight_turns {
	const struct turn_matrix *in, *out;
	const struct turn_memory *memory;
};
