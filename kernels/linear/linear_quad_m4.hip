/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_quad_sum.h for up to four and eight tokens: a compile unit.
 */
#include "kernels/linear/linear_quad_lean.h"

#define QUAD(...) \
	SHAPE(4, __VA_ARGS__) \
	SHAPE(8, __VA_ARGS__)
/* There are no registers for more than two steps. */
#define SHAPE(m, name, split, rows, unr, ...) \
	LINEAR_QUAD(name, m, split, rows, (unr > 2 ? 2 : unr), __VA_ARGS__)
#include "kernels/linear/linear_quad.def"
#undef SHAPE
#undef QUAD
