/* SPDX-License-Identifier: Apache-2.0
 *
 * How turn_blocks.hip is launched. C for the host, C++ for the kernel.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum { TURN_THREADS = 256 };
enum turn_store { TURN_TO_F16, TURN_TO_F32, TURN_ADD_F32 };

/* Device addresses; as in struct turn_blocks_args and struct turn_matrix. */
struct turn_launch {
	const float *base, *before, *after;
	const void *x;
	void *y;
	int32_t dim, n, order;
	int32_t line, line_shift; /* n / order, and its log2 */
	int32_t span;       /* numbers of a workgroup: a multiple of a line */
	float scale;
	uint32_t x_is_f32, store; /* enum turn_store */
	int32_t filler; /* tests/lint/check-padding */
};
