/* SPDX-License-Identifier: Apache-2.0
 *
 * How linear_int4_dot.h is launched: arguments, limits, names, LDS. C for the host, C++
 * for the kernel.
 *
 * A launch takes up to four weights of one K at 1..8 tokens, or with the row t32y4w16c32 of
 * linear_int4.def at 1..16. Each weight (part) has its
 * own workgroups, beginning at first_group; the host chooses how many. A wave goes on to
 * further rows until the part is done.
 *
 * The bits of a row depend on THRDS and CHUNK (the order of its sum) and on nothing else:
 * not on M, the other axes, or the grid. So a table may choose the other axes by M, but
 * these two by (N, K) only.
 */
#pragma once
#if !defined(__HIP__)
#include <stddef.h>
#include <stdint.h>
#endif
#include "kernels/linear/fused_norm.h"
#include "kernels/linear/linear_store.h"

enum {
	LINEAR_INT4_MAX_TOK = 8,
	LINEAR_INT4_MANY_TOK = 16, /* most tokens with the row t32y4w16c32 */
	LINEAR_INT4_OWN_TOK = 4,   /* most tokens with a row AXES_TO_4 */
	/* In rows with steps of LINEAR_INT4_SLICED_STEP elements, LDS holds a slice of K at a
	 * time from LINEAR_INT4_SLICED_TOK tokens on: `slice`. */
	LINEAR_INT4_SLICED_TOK = 3,
	LINEAR_INT4_SLICED_STEP = 1024,
	LINEAR_INT4_MAX_PART = 4,
	LINEAR_INT4_LDS = 65536 /* bytes of LDS that a workgroup may have */
};

/* Fields are in the order of their use, here and in linear_int4_args: arguments come from memory
 * in lines of 64 bytes, and a wave waits for each line when it first needs it. */
struct linear_int4_part {
	const uint32_t *q;         /* (N, pitch): K/8 words a row, 16-byte aligned */
	const void *scales;        /* (N, K/group) f16, or bf16 */
	int32_t n, pitch;          /* pitch: words from row to row, a multiple of CHUNK/8 */
	uint32_t is_bf16;          /* the scales are bf16, not f16 */
	uint32_t store;            /* enum linear_store: how to store y */
	const uint32_t *zero_points; /* (N/8, K/group); only read by the _zero kernels */
	const float *bias;         /* (N) f32, or NULL */
	void *y;                   /* (M, N), f16 or f32: see `store` */
};

struct linear_int4_args {
	const uint16_t *x;     /* (M, K) f16, 16-byte aligned */
	int32_t k, n_groups;   /* groups of a row: K / group */
	int32_t group_shift;   /* log2(group), or 31 for one group a row */
	int32_t grid;
	struct fused_norm norm; /* norm that makes x */
	int32_t slice;  /* elements of K that LDS holds at once, whole steps; read from
			 * LINEAR_INT4_SLICED_TOK tokens on */
	int32_t n_tok;  /* tokens; read by kernels for more than 8 */
	int32_t filler; /* tests/lint/check-padding */
	/* Of parts 1 and on, ascending; beyond the grid for an unused part. Part 0 begins at 0. */
	int32_t first_group[LINEAR_INT4_MAX_PART - 1];
	struct linear_int4_part part[LINEAR_INT4_MAX_PART];
};

/* A row of linear_int4.def. The kernel of M tokens is named
 * linear_int4_<name>_m<M>_kernel; with zero points linear_int4_<name>_m<M>_zero_kernel.
 * There is one for each M to 8. Those of t32y4w16c32 for up to 12 and up to 16 read n_tok. */
struct linear_int4_axes {
	const char *name;
	int32_t thrds;  /* lanes that share a row: 8, 16 or 32 */
	int32_t ytile;  /* rows that a lane sums at once */
	int32_t waves;  /* waves in a workgroup */
	int32_t chunk;  /* elements of K in one load of a lane: 8, 16 or 32 */
	int32_t unroll; /* chunks of a lane in flight */
};

/* Elements of K in one step of the lanes of a row. LDS holds whole steps. */
#define LINEAR_INT4_STEP(thrds, chunk) ((thrds) * (chunk))
#define LINEAR_INT4_LDS_BYTES(m, k, thrds, chunk) \
	((m) * (((k) + LINEAR_INT4_STEP(thrds, chunk) - 1) / \
		LINEAR_INT4_STEP(thrds, chunk) * LINEAR_INT4_STEP(thrds, chunk)) * 2)
/* Rows that a workgroup sums at once. */
#define LINEAR_INT4_ROWS(thrds, ytile, waves) (32 / (thrds) * (ytile) * (waves))
