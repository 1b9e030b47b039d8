/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile unit: linear_int4_sliced.h for seven and eight tokens.
 */
#include "kernels/linear/linear_int4_sliced.h"

#define AXES(...) \
	SHAPE(7, __VA_ARGS__) \
	SHAPE(8, __VA_ARGS__)
#define AXES_TO_4(...)
#define AXES_TO_1(...)
#define SHAPE(m, name, ...) LINEAR_INT4(name, m, __VA_ARGS__)
#include "kernels/linear/linear_int4.def"
#undef SHAPE
#undef AXES_TO_1
#undef AXES_TO_4
#undef AXES
