/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of the kernels with four lanes a row (quad.h), for host and device. The end
 * of a kernel's name says which kind of int4 it takes.
 */
#pragma once
#if !defined(__HIP__)
#include <stdbool.h>
#include <stdint.h>
#endif

enum {
	QUAD_STEP = 128, /* elements of K in a step of four lanes; K is a multiple of it */
	QUAD_ROWS = 16,  /* rows of a wave */
	QUAD_ZEROS = 16  /* pieces of zeros before the activations in LDS: one step */
};
enum quad_kind {
	QUAD_G32, /* groups of 32, no zero points: no suffix (moe_quad.hip: also whole turns) */
	QUAD_ANY, /* groups of 2^n >= 32, or one a row: _any */
	QUAD_ZERO /* QUAD_ANY with zero points: _zero */
};

/* A row of linear_quad.def. */
struct quad_axes {
	const char *name;
	int32_t split;  /* waves that divide the elements of K */
	int32_t rows;   /* sets of waves in a workgroup, 16 rows each */
	int32_t unroll; /* steps in use; as many more are in flight */
	int32_t room;   /* KERNEL_OF_MANY for one token: workgroups that must fit */
	bool is_lean;   /* use linear_quad_lean.h: SPLIT 1, K whole turns of UNROLL steps,
			 * one token, no norm */
};

/* Bytes of LDS: zeros, the activations, the row sums of each wave. */
#define QUAD_LDS(m, k, split, rows) \
	(QUAD_ZEROS * 16 + (m) * (k) * 2 + (split) * (rows) * QUAD_ROWS * (m) * 4)
