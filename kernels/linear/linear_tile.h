/* SPDX-License-Identifier: Apache-2.0
 *
 * How linear_tile.hip is launched. C for the host, C++ for the kernel.
 *
 * A launch takes up to four weights of one K at any number of tokens. The grid is
 * LINEAR_TILE_BLOCKS(m, BLOCK_M) * n_blocks workgroups of 32 * waves threads.
 *
 * Kernels are named linear_tile_<tile>_<format>_kernel. Formats: int4, int4_zero (int4 whose
 * parts may have zero points), f16, bf16, and those of weight_units.def by their names. A group
 * of int4, int8 or fp8 has 32, 64, 128, ... elements, or is a whole row. K is a multiple of 8 for
 * f16 and bf16, else of 32. Rows of weights and of x are 16-byte aligned, and an array of scales
 * is, too.
 *
 * The bits of a row do not depend on m, the tile, or the other outputs.
 */
#pragma once
#include "kernels/linear/linear_rows.h"
#include "kernels/linear/tile_gemm_host.h"

struct linear_tile_args {
	/* first_group counts blocks of outputs, ascending; an unused part has n_blocks. */
	struct linear_rows_part part[LINEAR_ROWS_MAX_PART];
	const uint16_t *x;  /* (M, K) f16 */
	int32_t m, k;
	int32_t n_groups;    /* groups of a row, if scales are a separate array */
	int32_t group_shift; /* log2(group), or 31 for one group a row */
	int32_t n_blocks;
	/* Two parts, gate and up, of one N: y of the first is silu(gate) up, f16. Only tiles whose
	 * waves have an even number of tiles in N: LINEAR_TILE_PAIRS. */
	int32_t is_pair;
};

#define LINEAR_TILE_PAIRS(block_n, waves_n) ((block_n) / 16 / (waves_n) % 2 == 0)

#define LINEAR_TILE_BLOCKS(n, block) (((n) + (block) - 1) / (block))
