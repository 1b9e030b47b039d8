/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_quad_sum.h for up to one and two tokens: a compile unit.
 */
#include "kernels/linear/linear_quad_lean.h"

#define QUAD(...) \
	SHAPE(1, __VA_ARGS__) \
	SHAPE(2, __VA_ARGS__)
#define SHAPE(m, name, ...) LINEAR_QUAD(name, m, __VA_ARGS__)
#include "kernels/linear/linear_quad.def"
#undef SHAPE
#undef QUAD

#ifdef DIALECT_LACKS_DOT2
/* By its name the host knows that these kernels are to be preferred: four lanes a row leave
 * the products to the matrix unit. It is never launched. */
KERNEL(32) void dialect_lacks_dot2_kernel()
{
}
#endif
