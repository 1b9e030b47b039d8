/* SPDX-License-Identifier: Apache-2.0
 *
 * How moe_experts is launched for many tokens: moe_align, moe_tile_up, moe_tile_down,
 * moe_combine. C for the host, C++ for the kernels.
 *
 * Pairs (kernels/moe/moe_launch.h) are sorted by expert, each expert's share rounded up to
 * blocks of block_m; up and down work at the same blocks. How many blocks there are is
 * known on the device alone, so grids are as large as they can need to be, and
 * workgroups without a block return.
 */
#pragma once
#include "kernels/moe/moe_launch.h"
#include "kernels/linear/tile_gemm_host.h"

enum {
	MOE_ALIGN_WAVES = 16,
	MOE_ALIGN_THREADS = 512,
	MOE_ALIGN_MAX_EXPERTS = 900, /* so that LDS suffices */
	MOE_COMBINE_THREADS = 256
};

/* n: experts, the shared one too. */
#define MOE_ALIGN_LDS(n) ((MOE_ALIGN_WAVES + 1) * (n) * 4)
/* At most so many blocks have n_pairs pairs of n experts. */
#define MOE_TILE_BLOCKS(n_pairs, n, block_m) \
	((n_pairs) / (block_m) + ((n) < (n_pairs) ? (n) : (n_pairs)))

struct moe_tile_launch {
	struct moe_launch m;
	int32_t *pairs;        /* (max_blocks, block_m): pair, or -1 */
	int32_t *block_expert; /* (max_blocks): or -1 */
	float *out;            /* (T n_slots, D) f32: what each expert says */
	int32_t max_blocks, block_m;
	int32_t n_experts;     /* with the shared one where it is a slot */
	int32_t n_blocks;      /* of outputs: of 2 F for up, of D for down */
};
