/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h for many tokens
 * LAYOUT    kernels/moe/moe_tile.h; weights in the formats of weight_units.def, as in the
 *           checkpoint
 * GEOMETRY  as moe_tile.hip, in the shapes that moe_tile.def calls ANY_TILE; weights as
 *           in linear_tile_units.hip
 * PRECISION as linear_tile_units.hip; h rounded to f16, outputs as moe_tile.hip
 * ROOFLINE  gpt-oss-20b, 512 tokens: 64 pairs an expert, 423 MB of weights a layer, 1.7
 *           ms at 256 GB/s; 102 GFLOP, 1.7 ms at 59 TFLOP/s
 * TRIED     no other form yet
 * SEE       kernels/ops/moe_experts_ref.c, kernels/moe/moe_tile.hip,
 *           kernels/moe/moe_rows.hip (few tokens)
 */
#include "kernels/moe/moe_tile.def"
#include "kernels/moe/moe_tile_block.h"

#define NONE(...)
/* Longer steps would need registers for more units, and LDS for more scales. */
#define ONE(tile, bm, bn, bk, wm, wn, rate, other, name, format) \
	MOE_TILE(tile, name, format, bm, bn, 32, wm, wn)
#define UNITS(name, format) MOE_TILES(NONE, ONE, name, GEMM_UNITS + format)
#define UNIT_BLOCKS UNITS
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef NONE
#undef ONE
#undef MOE_TILE
