/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile unit: linear_int4_dot.h for up to twelve, and up to sixteen tokens, in the shape
 * `wide` alone.
 */
#include "kernels/linear/linear_int4_dot.h"

LINEAR_INT4(wide, 12, 32, 4, 16, 32, 1)
LINEAR_INT4(wide, 16, 32, 4, 16, 32, 1)
