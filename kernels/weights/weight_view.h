/* SPDX-License-Identifier: Apache-2.0
 *
 * A weight as kernels take it, by value: what struct weight (model/formats/blocks.h) says,
 * with device addresses. C for the host that fills it, C++ for the kernel.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

/* The numbers of enum quant, of the same list. */
enum weight_format {
#define QUANT(ident, ...) WEIGHT_##ident,
#define QUANT_BLOCK(ident, ...) WEIGHT_##ident,
#include "src/model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
};
/* Those of enum dtype, which a kernel does not include; src/backend/hip/hip_weight.c holds
 * them equal. */
enum scale_format { SCALE_F32, SCALE_F16, SCALE_BF16 };

struct weight_view {
	const void *q;               /* (N, K) or (N, K/8) words, rows pitch apart */
	const void *scales;          /* (N / group_n, K/group): of scale_format, or e4m3
				      * (nvfp4) or e8m0 (mxfp4) */
	const uint32_t *zero_points; /* (N/8, K/group), or NULL: 8; int8: (N/4, K/group),
				      * 128 */
	int32_t n, k, group, format, scale_format;
	int32_t pitch;               /* bytes from row to row of q; a multiple of 4 where
				      * they are words, of 16 where k is one of 8 */
	int32_t group_n;             /* rows that share scales: 1, fp8 more */
	float factor;                /* of all scales: nvfp4's global scale, else 1 */
};
