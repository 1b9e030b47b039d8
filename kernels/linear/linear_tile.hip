/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for many tokens: Y = X W' + bias, or added to Y
 * LAYOUT    kernels/linear/linear_tile.h. W int4 as in the checkpoint, f16, or bf16; X f16
 * GEOMETRY  kernels/linear/tile_gemm.h, a workgroup a block of BLOCK_M x BLOCK_N. Workgroups
 *           in order of launch take BAND blocks of tokens for each block of outputs, so
 *           that those that run together share both X and W in the caches. LDS: 41 KiB
 *           at 128 x 128 x 32 int4, 61 KiB bf16.
 * PRECISION int4, f16: products are exact, sums f32; scales in f32 on the sum of each
 *           group. bf16: X as two bf16, exactly; sums f32
 * ROOFLINE  gfx11: a v_wmma takes 32 cycles of its SIMD for 16 x 16 x 16, so a step of
 *           128 x 128 x 32 is 512 cycles of each of 8 waves. Beside it: dequantization
 *           208 vector instructions over the 8 waves (26 a wave, 5 %); scaling of groups
 *           of 32, 64 fma a wave, 32 where they pair (6 to 12 %; of 128 a quarter);
 *           24 LDS loads of 16 bytes a lane a wave: 8 waves x 24 x 4 cycles of 128 bytes
 *           = 768 of the 1024 cycles that two SIMDs need: LDS is nearly as busy as
 *           the matrix units, so larger wave tiles than 64 x 32 would pay, if registers
 *           allowed. Expected 75 % of 59 TFLOP/s on 40 compute units.
 * TRIED     weights rounded to f16 with their scale: no fold, but an error of 2^-12 a
 *           weight, and scales above 65504 / 8 overflow; K padded per group in place of
 *           fold at its end: the same; two bf16 terms of X against rounding W to f16:
 *           twice the products, but right for any bf16
 * SEE       kernels/ops/linear_ref.c, kernels/linear/linear_tile.def, kernels/linear/linear_int4_dot.h (few
 *           tokens)
 */
#include "kernels/linear/linear_tile.def"
#include "kernels/linear/linear_tile_block.h"

#define TILE(tile, bm, bn, bk, wm, wn, rate) \
	LINEAR_TILE(tile, int4g32, GEMM_INT4_G32, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, int4, GEMM_INT4, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, f16, GEMM_F16, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, bf16, GEMM_BF16, bm, bn, bk, wm, wn)
LINEAR_TILES(TILE, TILE)
#undef TILE
#undef LINEAR_TILE
