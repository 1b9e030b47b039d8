/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for many tokens: Y = X W' + bias, or added to Y
 * LAYOUT    kernels/linear/linear_tile.h. W int4 as in the checkpoint, f16, or bf16; X
 *           f16
 * GEOMETRY  kernels/linear/tile_gemm.h; a workgroup computes a block of BLOCK_M x
 *           BLOCK_N. In launch order, workgroups take BAND blocks of tokens for each
 *           block of outputs, so that workgroups running together share both X and W in
 *           the caches. LDS: 36 KiB at 128 x 128 x 32 int4, 24 KiB bf16,
 *           13 KiB at 128 x 64 x 32 int4.
 *           Gate and up with silu behind them are one product: tiles of both take turns, so a
 *           lane has both sums, and neither goes to memory (linear_tile_store_pair).
 * PRECISION int4, f16: products are exact, sums f32; scales in f32 on the sum of each 32
 *           elements. bf16: X as an exact sum of two bf16; sums f32
 * ROOFLINE  gfx11: a v_wmma occupies its SIMD for 32 cycles for 16 x 16 x 16, so a step
 *           of 128 x 128 x 32 is 512 cycles of each of 8 waves. In addition:
 *           dequantization takes 208 vector instructions over the 8 waves (26 a wave, 5
 *           %). Scaling takes 64 fma a wave, 32 if they pair (6 to 12 %). A wave makes 24
 *           LDS loads of 16 bytes a lane: 8 waves x 24 x 4 cycles of 128 bytes = 768 of the
 *           1024 cycles that two SIMDs need. So LDS is nearly as busy as the matrix units;
 *           wave tiles above 64 x 32 would help if registers allowed. Expected: 75 % of 59
 *           TFLOP/s on 40 compute units.
 * TRIED     weights multiplied by their scale and rounded to f16: no separate scaling,
 *           but an error of 2^-12 a weight, and scales above 65504 / 8 overflow. K padded
 *           per group instead of scaling at its end: the same speed. Groups of 128 scaled at
 *           their end alone: 64 registers more, and as many instructions, because clang
 *           copies sums that are scaled in some steps. Rounding W from bf16
 *           to f16: half the products, but wrong for some bf16 values. On an NVIDIA H200:
 *           loads two steps ahead, with three buffers of X: Qwen3-8B 1 % slower,
 *           Qwen3-30B-A3B 2 to 5 % faster.
 *           m128n64 with two buffers, predicted for gfx1151, 2,048 tokens, 4,096 to 2,048: 1.21 ms
 *           instead of 1.03.
 *           On an NVIDIA H100, Qwen3-8B's gate and up of 2,048 tokens, in TFLOP/s: 206 by
 *           m128n128, 232 by m128n64, whose three workgroups of four waves have 168 registers a
 *           thread. There: rows of tiles one after the other 211 (tile_gemm_multiply.h); one step
 *           an iteration 223, two 232; W copied to LDS as it is 212; 222 registers and two
 *           workgroups 186; waves of 64 x 64: 206 to 211; four steps with those 192. A loop without
 *           zero points, beside one with them: 4 % slower in a model, although the same loop
 *           alone is 2 % faster. So zero points have kernels of their own. On gfx11 two steps, as
 *           then on NVIDIA: 2 % fewer instructions, but clang spills 130 registers.
 * SEE       kernels/ops/linear_ref.c, kernels/linear/linear_tile.def,
 *           kernels/linear/linear_int4_dot.h (few tokens)
 */
#include "kernels/linear/linear_tile.def"
#include "kernels/linear/linear_tile_block.h"

#define TILE(tile, bm, bn, bk, wm, wn, rate) \
	LINEAR_TILE(tile, int4, GEMM_INT4, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, int4_zero, GEMM_INT4_ZERO, bm, bn, bk, wm, wn)
#define ANY_TILE(tile, bm, bn, bk, wm, wn, rate) \
	TILE(tile, bm, bn, bk, wm, wn, rate) \
	LINEAR_TILE(tile, f16, GEMM_F16, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, bf16, GEMM_BF16, bm, bn, bk, wm, wn)
LINEAR_TILES(TILE, ANY_TILE)
#undef ANY_TILE
#undef TILE
#undef LINEAR_TILE
