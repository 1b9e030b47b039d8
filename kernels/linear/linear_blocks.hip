/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of linear_blocks.h, which says what they do: one for each format of blocks and 1, 2,
 * 4 or 8 tokens; and for each pair of linear_pairs.def and 1 or 2 tokens.
 */
#include "kernels/linear/linear_blocks.h"
#include "kernels/linear/linear_pairs.def"

#define LINEAR_BLOCKS_M(name, format, m) \
	KERNEL(LINEAR_ROWS_WAVES * WAVE) \
	void linear_blocks_##name##_m##m##_kernel(linear_rows_args a) \
	{ \
		linear_blocks<m, format>(a); \
	}
#define LINEAR_BLOCKS(name, format) \
	LINEAR_BLOCKS_M(name, format, 1) LINEAR_BLOCKS_M(name, format, 2) \
	LINEAR_BLOCKS_M(name, format, 4) LINEAR_BLOCKS_M(name, format, 8)
#define UNITS(...)
#define UNIT_BLOCKS LINEAR_BLOCKS
#include "kernels/weights/weight_units.def"
#undef UNITS
#undef UNIT_BLOCKS
#undef LINEAR_BLOCKS
#undef LINEAR_BLOCKS_M

#define LINEAR_PAIR_M(name, other, format, second, m) \
	KERNEL(LINEAR_ROWS_WAVES * WAVE) \
	void linear_pair_##name##_##other##_m##m##_kernel(linear_rows_args a) \
	{ \
		linear_blocks<m, WEIGHT_##format, WEIGHT_##second>(a); \
	}
LINEAR_PAIRS(LINEAR_PAIR_M, 1)
LINEAR_PAIRS(LINEAR_PAIR_M, 2)
#undef LINEAR_PAIR_M
