/* SPDX-License-Identifier: Apache-2.0
 *
 * How moe_experts is launched for many tokens: moe_align, moe_tile_up, moe_tile_down,
 * moe_combine. C for the host, C++ for the kernels.
 *
 * Pairs (kernels/moe/moe_launch.h) are sorted by expert, and each expert's share is
 * rounded up to blocks of block_m pairs. up and down use the same blocks. Only the device
 * knows the number of blocks, so grids have the largest possible size, and workgroups
 * without a block return.
 */
#pragma once
#include "kernels/moe/moe_launch.h"
#include "kernels/linear/tile_gemm_host.h"

enum {
	MOE_ALIGN_WAVES = 16,
	MOE_ALIGN_THREADS = 512,
	MOE_ALIGN_MAX_EXPERTS = 900, /* more would not fit in LDS */
	MOE_COMBINE_THREADS = 256,
	MOE_COMBINE_EACH = 8 /* numbers of y a thread */
};

/* n: experts including the shared one. */
#define MOE_ALIGN_LDS(n) ((MOE_ALIGN_WAVES + 1) * (n) * 4)
/* Most blocks that n_pairs pairs of n experts can have. */
#define MOE_TILE_BLOCKS(n_pairs, n, block_m) \
	((n_pairs) / (block_m) + ((n) < (n_pairs) ? (n) : (n_pairs)))

struct moe_tile_launch {
	struct moe_launch m;
	int32_t *pairs;        /* (max_blocks, block_m): pair, or -1 if unused */
	int32_t *block_expert; /* (max_blocks): expert, or -1 if unused */
	uint16_t *out;         /* (T n_slots, D) f16: each pair's output over MOE_OUT_PART, before
				* weighting */
	int32_t max_blocks, block_m;
	int32_t n_experts;     /* includes the shared one if it is a slot */
	int32_t n_blocks;      /* blocks of outputs: of 2 F for up, of D for down */
};
