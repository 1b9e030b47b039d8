/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels with four lanes a row (quad.h), for the host and for the device. Which
 * kind of int4 a kernel is for stands at the end of its name.
 */
#pragma once
#if !defined(__HIP__)
#include <stdbool.h>
#include <stdint.h>
#endif

enum {
	QUAD_STEP = 128, /* elements of K that four lanes take at once; K is a multiple */
	QUAD_ROWS = 16,  /* of a wave */
	QUAD_ZEROS = 16  /* pieces of zeros before the activations in LDS: a step's */
};
enum quad_kind {
	QUAD_G32, /* groups of 32, no zero points: no word in the name (moe_quad.hip: and whole
		   * turns) */
	QUAD_ANY, /* groups of 2^n >= 32, or one a row: _any */
	QUAD_ZERO /* the same with zero points: _zero */
};

/* One row of linear_quad.def. */
struct quad_axes {
	const char *name;
	int32_t split;  /* waves that share the elements of K */
	int32_t rows;   /* such sets of waves in a workgroup, 16 rows each */
	int32_t unroll; /* steps in flight, the same again while they are used */
	int32_t room;   /* of one token: for so many workgroups at once (KERNEL_OF_MANY) */
	bool is_lean;   /* SPLIT 1, K whole turns of UNROLL steps, one token without its norm:
			 * linear_quad_lean.h */
};

/* LDS: zeros, the activations, the rows' sums of each wave. */
#define QUAD_LDS(m, k, split, rows) \
	(QUAD_ZEROS * 16 + (m) * (k) * 2 + (split) * (rows) * QUAD_ROWS * (m) * 4)
