/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplies each block of n neighbouring numbers of a row by one matrix R (n, n):
 *
 *   y_b = x_b R, or y_b += x_b R, for each block b of F / n
 *
 * R is what struct turn_matrix says: a Hadamard matrix with signs, or any matrix. Before and
 * behind a product this spreads outliers over a block, so that few bits suffice. QuIP#, 2024,
 * section 3; SpinQuant, 2024, section 3.2.
 */
#pragma once
#include <stdbool.h>

#include "model/formats/blocks.h"
#include "model/formats/turn.h"

struct turn_blocks_args {
	int32_t n_tok, dim;      /* T, F: a multiple of n */
	const struct turn_matrix *turn; /* host, with device addresses */
	const void *x;           /* (T, F) act, or f32 if x_is_f32 */
	bool x_is_f32;
	void *y;                 /* (T, F): f32 if is_f32 or adds, else act; not x */
	bool is_f32;
	bool adds;               /* y += in place of y = */
};

void turn_blocks_ref(const struct turn_blocks_args *a);
