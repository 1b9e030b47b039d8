/* SPDX-License-Identifier: Apache-2.0
 *
 * What lora_add's kernels read of an adapter, in device memory. C for the host, C++ for the
 * kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

/* An adapter's matrices for one weight. */
struct lora_part {
	const float *a; /* (R, K) */
	const float *b; /* (R, N): B transposed */
	int32_t rank;   /* R of this adapter; 0: it leaves the weight as it is */
	float scale;    /* s */
};
