/* SPDX-License-Identifier: Apache-2.0
 *
 * How linear_tile.hip is launched. C for the host, C++ for the kernel.
 *
 * A launch takes up to four weights of one K at any number of tokens; grid
 * LINEAR_TILE_BLOCKS(m, BLOCK_M) * n_blocks workgroups of 32 * waves threads. Kernels
 * are named linear_tile_<tile>_<format>_kernel: int4g32 for groups of 32, int4 for
 * groups of 64, 128, ... or one a row; f16; bf16; those of weight_units.def by their
 * names, groups of int8 and fp8 of 32 and more. K is a multiple of 8 for f16 and bf16, of
 * 32 else; rows of weights and of x are 16-byte aligned.
 *
 * What comes out of a row does not depend on m, the tile, or the other outputs.
 */
#pragma once
#include "kernels/linear/linear_rows.h"
#include "kernels/linear/tile_gemm_host.h"

struct linear_tile_args {
	/* first_group: in blocks of outputs, ascending; of a part that is not: n_blocks. */
	struct linear_rows_part part[LINEAR_ROWS_MAX_PART];
	const uint16_t *x;  /* (M, K) f16 */
	int32_t m, k;
	int32_t n_groups;    /* of a row, where scales lie apart */
	int32_t group_shift; /* log2(group), or 31: one group a row */
	int32_t n_blocks;
};

#define LINEAR_TILE_BLOCKS(n, block) (((n) + (block) - 1) / (block))
