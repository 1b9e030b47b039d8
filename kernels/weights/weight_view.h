/* SPDX-License-Identifier: Apache-2.0
 *
 * A weight as kernels receive it, by value: the fields of struct weight
 * (model/formats/blocks.h) with device addresses. C for the host, C++ for the kernel.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

/* The same numbers as in enum quant, from the same list. */
enum weight_format {
#define QUANT(ident, ...) WEIGHT_##ident,
#define QUANT_BLOCK(ident, ...) WEIGHT_##ident,
#include "src/model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
};
/* The same numbers as in enum dtype, which kernels do not include.
 * src/backend/hip/hip_weight.c asserts that they agree. */
enum scale_format { SCALE_F32, SCALE_F16, SCALE_BF16 };

struct weight_view {
	const void *q;               /* (N, K), or (N, K/8) words; rows are pitch apart */
	const void *scales;          /* (N / group_n, K/group) of scale_format; nvfp4:
				      * e4m3, mxfp4: e8m0 */
	const uint32_t *zero_points; /* (N/8, K/group), NULL: all 8; int8: (N/4, K/group),
				      * NULL: all 128 */
	int32_t n, k, group, format, scale_format;
	int32_t pitch;               /* bytes from row to row of q: a multiple of 4 for
				      * words, of 16 if k is a multiple of 8 */
	int32_t group_n;             /* rows that share a scale: 1, except for fp8 in blocks */
	float factor;                /* factor of all scales: nvfp4's global scale, else 1 */
};
