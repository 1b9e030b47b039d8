/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile unit: linear_quad_sum.h for one token, and for two.
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
/* Never launched. Its presence in the code object tells the host to prefer these kernels:
 * four lanes a row let the matrix unit do the products. */
KERNEL(32) void dialect_lacks_dot2_kernel()
{
}
#endif
