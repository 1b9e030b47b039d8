/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile unit: linear_quad_sum.h for up to four, and up to eight tokens.
 */
#include "kernels/linear/linear_quad_lean.h"

#define QUAD(...) \
	SHAPE(4, __VA_ARGS__) \
	SHAPE(8, __VA_ARGS__)
/* With so many tokens, registers suffice for two steps only. */
#define SHAPE(m, name, split, rows, unr, ...) \
	LINEAR_QUAD(name, m, split, rows, (unr > 2 ? 2 : unr), __VA_ARGS__)
#include "kernels/linear/linear_quad.def"
#undef SHAPE
#undef QUAD
