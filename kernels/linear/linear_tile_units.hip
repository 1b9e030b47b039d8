/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for many tokens: Y = X W' + bias, or added to Y
 * LAYOUT    kernels/linear/linear_tile.h. W in the formats of weight_units.def, as in the
 *           checkpoint; X f16
 * GEOMETRY  as linear_tile.hip, in the shapes that linear_tile.def calls UNIT_TILE. A
 *           thread loads whole units, one or two a step, and converts them to halves on
 *           the way to LDS. LDS: 22 KiB at 64 x 64 x 32, 1 KiB more for ones, 4 KiB for a
 *           lookup table
 * PRECISION products are exact, sums f32; scales in f32 on the sum of each unit or group
 * ROOFLINE  in addition to the 16 products of a wave and step of 64 x 64 x 32: 120 vector
 *           instructions for two units, 64 to 128 to scale; a fourth to a half of the
 *           matrix units' time. Formats with minima take half as many products more
 * TRIED     no other form yet
 * SEE       kernels/ops/linear_ref.c, kernels/linear/tile_gemm.h,
 *           kernels/linear/linear_blocks.hip (few tokens)
 */
#include "kernels/linear/linear_tile.def"
#include "kernels/linear/linear_tile_block.h"

#define NONE(...)
/* Longer steps would need registers for more units, and LDS for more scales. */
#define ONE(tile, bm, bn, bk, wm, wn, rate, name, format) \
	LINEAR_TILE(tile, name, format, bm, bn, (bm > 16 ? 32 : bk), wm, wn)
#define UNITS(name, format) LINEAR_TILES(NONE, ONE, name, GEMM_UNITS + format)
#define UNIT_BLOCKS UNITS
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef NONE
#undef ONE
#undef LINEAR_TILE
