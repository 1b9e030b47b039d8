/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for many tokens: Y = X W' + bias, or added to Y
 * LAYOUT    kernels/linear/linear_tile.h. W in the formats of weight_units.def, as in the
 *           checkpoint; X f16
 * GEOMETRY  as linear_tile.hip, in the shapes that linear_tile.def calls ANY_TILE. A
 *           thread loads whole units, one or two a step, and converts them to halves on
 *           the way to LDS. The threads that bring X add up the inputs that a minimum
 *           multiplies. LDS: 33 to 39 KiB at 128 x 128 x 32, a lookup table of up to 4 KiB
 *           among them
 * PRECISION products are exact, sums f32; scales in f32 on the sum of each unit, or of 32
 *           elements of a group
 * ROOFLINE  in addition to the 16 products of a wave and step of 128 x 128 x 32, 512 cycles
 *           of gfx11: 25 to 60 vector instructions for a unit, and 32 pairs of fma to scale.
 *           Formats with minima take 32 pairs more, and 12 instructions for the sums. Where a
 *           unit lies is computed by scalar instructions, and added by the loads themselves
 * TRIED     the sums of inputs as one more product, with a matrix of ones: half as many
 *           products more. 64 x 64 as the largest tile: twice as many conversions a product.
 *           The sums of a group of 128 scaled at its end: clang copies them in each step.
 *           (predicted for gfx1151) Weights by non-temporal loads, though workgroups of other
 *           rows of X read them, too: 1.12 times the time of Q6_K. Q4_K's integers times those
 *           of their scales, which are exact halves, and the scales once in 256 elements: 5 %
 *           fewer instructions, but waits for sums: 1.14 times the time. Int4's words by such
 *           addresses, too: 0.99 times
 * SEE       kernels/ops/linear_ref.c, kernels/linear/tile_gemm.h,
 *           kernels/linear/linear_blocks.h (few tokens)
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
