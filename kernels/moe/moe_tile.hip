/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for many tokens
 * LAYOUT    kernels/moe/moe_tile.h, pairs as sorted by moe_align.hip; weights int4, f16
 *           or bf16, the same for all experts
 * GEOMETRY  up, down: kernels/linear/tile_gemm.h; a workgroup computes a block of pairs
 *           by BLOCK_N rows, and X is gathered by pair. up: in a block, 16 rows of gate
 *           alternate with 16 of up, so that a lane has both sums of its h and writes
 *           silu(g) u. down: even rows of W are in one tile and odd ones in the next, so a
 *           lane stores two neighbours at once. combine: (D over 2,048, T), eight numbers
 *           of y a thread, which adds the slots in order. Unused rows of a block are its
 *           last. Tiles of 16 rows without a pair are not multiplied; other unused rows
 *           compute what the first pair does, and are not stored.
 * PRECISION as linear_tile.hip; h rounded to f16, and an expert's output over 16 (MOE_OUT_PART);
 *           f32 from there to y
 * ROOFLINE  Qwen3-30B-A3B, 512 tokens: 32 pairs an expert, 226 MB of weights a layer (0.9
 *           ms at 256 GB/s), and 39 GFLOP including the unused rows of last blocks. 19
 *           TFLOP/s would take as long, so up to about 1,000 tokens Strix Halo's memory
 *           is the limit. out costs 4 D bytes a pair: 4 MB of 226.
 * TRIED     predicted for gfx1151, a layer of Qwen3-30B-A3B: `out` in f32, 2,048 tokens: down 2.46
 *           ms instead of 2.11, combine 0.64 instead of 0.36. A tile m128n256, waves of 64 x
 *           64, 4,096 tokens: up 7.23 ms instead of 6.51, down 4.05 instead of 3.54. m32n128 with
 *           two buffers, so five waves of a SIMD instead of nine, 2,048 tokens of Qwen3.5-35B-A3B:
 *           up 3.75 ms instead of 2.90, down 2.23 instead of 1.64.
 *           down adding to y by f32 atomics: needs no `out`, but the order of sums
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
	struct numbers {
		float v[MOE_COMBINE_EACH];
	};
	size_t d = (group_index_x() * MOE_COMBINE_THREADS + thread_index()) * MOE_COMBINE_EACH;
	size_t t = group_index_y(), dim = (size_t)a.m.dim, n = (size_t)a.m.n_slots;
	if (d >= dim)
		return;
	numbers *y = (numbers *)(a.m.y + t * dim + d), sum = *y;
	const uint16_t *out = a.out + t * n * dim + d;
	for (size_t s = 0; s < n; s++) {
		u32x4 x = *(const u32x4 *)(out + s * dim);
		float weight = moe_slot_weight(a.m, t, s) * MOE_OUT_PART;
		UNROLL
		for (int i = 0; i < MOE_COMBINE_EACH; i++)
			sum.v[i] += f16_to_f32((uint16_t)(x[i / 2] >> i % 2 * 16)) * weight;
	}
	*y = sum;
}

#define TILE(tile, bm, bn, bk, wm, wn, rate, other) \
	MOE_TILE(tile, int4, GEMM_INT4, bm, bn, bk, wm, wn) \
	MOE_TILE(tile, int4_zero, GEMM_INT4_ZERO, bm, bn, bk, wm, wn)
#define ANY_TILE(tile, bm, bn, bk, wm, wn, rate, other) \
	TILE(tile, bm, bn, bk, wm, wn, rate, other) \
	MOE_TILE(tile, f16, GEMM_F16, bm, bn, bk, wm, wn) \
	MOE_TILE(tile, bf16, GEMM_BF16, bm, bn, bk, wm, wn)
MOE_TILES(TILE, ANY_TILE)
#undef ANY_TILE
#undef TILE
#undef MOE_TILE
