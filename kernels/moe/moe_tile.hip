/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for many tokens
 * LAYOUT    kernels/moe/moe_tile.h, pairs as sorted by moe_align.hip; weights int4, f16
 *           or bf16, the same for all experts
 * GEOMETRY  up, down: kernels/linear/tile_gemm.h; a workgroup computes a block of pairs
 *           by BLOCK_N rows, and X is gathered by pair. up: in a block, 16 rows of gate
 *           alternate with 16 of up, so that a lane has both sums of its h and writes
 *           silu(g) u. combine: (D over 256, T), one number of y a thread, which adds the
 *           slots in order. Unused rows of a block are its last. Tiles of 16 rows without
 *           a pair are not multiplied; other unused rows compute what the first pair does,
 *           and are not stored.
 * PRECISION as linear_tile.hip; h rounded to f16; f32 from there to y
 * ROOFLINE  Qwen3-30B-A3B, 512 tokens: 32 pairs an expert, 226 MB of weights a layer (0.9
 *           ms at 256 GB/s), and 39 GFLOP including the unused rows of last blocks. 19
 *           TFLOP/s would take as long, so up to about 1,000 tokens Strix Halo's memory
 *           is the limit. out costs 8 D bytes a pair: 8 MB of 226.
 * TRIED     down adding to y by f32 atomics: needs no `out`, but the order of sums
 *           varies. One loop for full and other blocks, which asks in each step: clang
 *           copies the sums of all tiles where its ways meet again. On an NVIDIA H200, 12 layers of
 *           Qwen3-30B-A3B, prompts of 4,096, tokens/s: m128n128 78,900, m64n128 78,800, a tile
 *           m128n64 71,750
 * SEE       kernels/ops/moe_experts_ref.c, kernels/moe/moe_tile.def,
 *           kernels/linear/linear_tile.hip
 */
#include "kernels/moe/moe_tile.def"
#include "kernels/moe/moe_tile_block.h"

KERNEL(MOE_COMBINE_THREADS) void moe_combine_kernel(moe_tile_launch a)
{
	size_t d = group_index_x() * MOE_COMBINE_THREADS + thread_index();
	size_t t = group_index_y(), dim = (size_t)a.m.dim, n = (size_t)a.m.n_slots;
	if (d >= dim)
		return;
	float *y = a.m.y + t * dim + d, sum = *y;
	const float *out = a.out + t * n * dim + d;
	for (size_t s = 0; s < n; s++)
		sum += out[s * dim] * moe_slot_weight(a.m, t, s);
	*y = sum;
}

#define TILE(tile, bm, bn, bk, wm, wn, rate) \
	MOE_TILE(tile, int4, GEMM_INT4, bm, bn, bk, wm, wn) \
	MOE_TILE(tile, int4_zero, GEMM_INT4_ZERO, bm, bn, bk, wm, wn)
#define ANY_TILE(tile, bm, bn, bk, wm, wn, rate) \
	TILE(tile, bm, bn, bk, wm, wn, rate) \
	MOE_TILE(tile, f16, GEMM_F16, bm, bn, bk, wm, wn) \
	MOE_TILE(tile, bf16, GEMM_BF16, bm, bn, bk, wm, wn)
MOE_TILES(TILE, ANY_TILE)
#undef ANY_TILE
#undef TILE
#undef MOE_TILE
