/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product of the exact way: four rows of a weight, decoded to float once,
 * times up to TILE_TOK inputs.
 */
#pragma once
#include "base/alloc.h"
#include "model/formats/blocks.h"

#define TILE_ROWS 4
#define TILE_TOK 64

static inline int cpu_tiles(int32_t n)
{
	return DIV_UP(n, TILE_ROWS);
}

/* out[j][r] = row n0 + r of w times x[j] (K), j < n_x <= TILE_TOK. Rows past the end give
 * 0. */
void cpu_tile(const struct weight *w, int32_t n0, const float *const *x, int n_x,
	      float (*out)[TILE_ROWS]);

/* Decode elements [k0, k1) of a row to floats: the result of weight_decode_part, faster.
 * k0 is a multiple of 8. */
void cpu_tile_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		     float *out);
