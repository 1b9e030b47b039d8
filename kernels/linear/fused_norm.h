/* SPDX-License-Identifier: Apache-2.0
 *
 * The RMS norm (rms_norm.h) that a kernel makes its own input by: each workgroup
 * normalises for itself, with the bits of rms_norm.hip, and the first writes the result.
 * C for the host, C++ for the kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

/* More tokens than this are normalised by a launch of their own. */
enum { FUSED_NORM_TOK = 2 };

struct fused_norm {
	const float *x;      /* (T, D) f32; NULL: no norm, the input is there */
	const float *weight; /* (D) f32 */
	uint16_t *y;         /* (T, D) f16, written */
	float eps;
};
