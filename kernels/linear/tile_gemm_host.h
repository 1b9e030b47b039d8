/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions of tiled products (tile_gemm.h) shared by host and kernels: C and C++.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

/* GEMM_INT4: every zero point is 8. GEMM_INT4_ZERO: rows may have their own.
 * GEMM_UNITS + n: format n of enum weight_format, in units (kernels/weights/weight_units.h). */
enum gemm_format { GEMM_INT4, GEMM_INT4_ZERO, GEMM_F16, GEMM_BF16, GEMM_UNITS = 16 };

/* A row of linear_tile.def or moe_tile.def without BLOCK_K, which only the kernels know. */
struct tile_shape {
	const char *name;
	int32_t block_m, block_n, waves_m, waves_n, rate;
	int32_t is_any; /* compiled for every format, else for int4 alone */
};
