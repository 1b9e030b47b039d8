/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of linear_rows_dot.h, which says what they do: one for each format and 1, 2, 4,
 * 8 or 16 tokens.
 */
#include "kernels/linear/linear_rows_dot.h"

#define LINEAR_ROWS_M(name, format, m) \
	KERNEL(LINEAR_ROWS_WAVES_OF(m) * WAVE) \
	void linear_rows_##name##_m##m##_kernel(linear_rows_args a) \
	{ \
		linear_rows<m, format>(a); \
	}
#define LINEAR_ROWS(name, format) \
	LINEAR_ROWS_M(name, format, 1) LINEAR_ROWS_M(name, format, 2) \
	LINEAR_ROWS_M(name, format, 4) LINEAR_ROWS_M(name, format, 8) \
	LINEAR_ROWS_M(name, format, 16)
LINEAR_ROWS(f16, WEIGHT_F16)
LINEAR_ROWS(bf16, WEIGHT_BF16)
LINEAR_ROWS(int8, WEIGHT_INT8)
LINEAR_ROWS(fp8, WEIGHT_FP8)
LINEAR_ROWS(nvfp4, WEIGHT_NVFP4)
LINEAR_ROWS(mxfp4, WEIGHT_MXFP4)
