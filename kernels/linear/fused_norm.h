/* SPDX-License-Identifier: Apache-2.0
 *
 * An RMS norm (rms_norm.h) that a kernel applies to its own input. Each workgroup
 * normalises for itself, with the bits of rms_norm.hip, and the first one writes the
 * result. C for the host, C++ for the kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

/* For more tokens a separate launch does the norm. */
enum { FUSED_NORM_TOK = 2 };

struct fused_norm {
	const float *x;      /* (T, D) f32; NULL: no norm, the kernel's input is ready */
	const float *weight; /* (D) f32 */
	uint16_t *y;         /* (T, D) f16: the normalised rows are written here */
	float eps;
	int32_t filler; /* tests/lint/check-padding */
};
