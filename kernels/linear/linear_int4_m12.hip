/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile unit: linear_int4_sliced.h for up to twelve, and up to sixteen tokens, in the shape
 * t32y4w16c32 alone.
 */
#include "kernels/linear/linear_int4_sliced.h"

LINEAR_INT4(t32y4w16c32, 12, 32, 4, 16, 32, 1)
LINEAR_INT4(t32y4w16c32, 16, 32, 4, 16, 32, 1)
