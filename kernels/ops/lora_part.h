/* SPDX-License-Identifier: Apache-2.0
 *
 * What lora_add's kernels read of an adapter, in device memory. C for the host, C++ for the
 * kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum lora_type { LORA_F32, LORA_F16, LORA_BF16 };

/* An adapter's matrices for one weight. */
struct lora_part {
	const void *a; /* (R, K), or lora_add_columns in place of K */
	const void *b; /* (R, N): B transposed; or lora_add_rows in place of N */
	int32_t rank;  /* R of this adapter; 0: it leaves the weight as it is */
	float scale;   /* s */
	int32_t type;  /* of the numbers of both: enum lora_type */
	int32_t filler;
};
