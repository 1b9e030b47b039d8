/* SPDX-License-Identifier: Apache-2.0
 *
 * How linear_rows.hip, linear_blocks.hip and linear_quad_int8.hip are launched: arguments,
 * limits, LDS. C for the host, C++ for the kernels.
 *
 * A launch takes up to four weights of one format and K at 1..8 tokens; each (part) has
 * workgroups of its own, first_group..., as many as the host likes. What comes out of a
 * row does not depend on M nor on the grid. Kernels are of 1, 2, 4 and 8 tokens.
 * Groups are powers of two of at least 16 elements (32 where weights are of four bits,
 * but nvfp4 has 16), or one a row. linear_blocks: scales are in q, K is whole blocks.
 * linear_quad_int8: one scale a row, no zero points, K is whole turns.
 */
#pragma once
#include "kernels/linear/linear_store.h"
#include "kernels/weights/weight_view.h"

enum {
	LINEAR_ROWS_MAX_TOK = 8,
	LINEAR_ROWS_MAX_PART = 4,
	LINEAR_ROWS_WAVES = 8,   /* of a workgroup */
	LINEAR_ROWS_TILE = 2,    /* rows of a wave at a time */
	LINEAR_ROWS_LDS = 65536, /* bytes a workgroup may have */
	LINEAR_BLOCKS_THRDS = 16, /* lanes that share a row */
	LINEAR_QUAD_INT8_WAVES = 4, /* of a workgroup, 16 rows of each */
	LINEAR_QUAD_INT8_STEPS = 4, /* of a turn, 64 elements each */
	LINEAR_QUAD_INT8_TURN = LINEAR_QUAD_INT8_STEPS * 64,
	LINEAR_QUAD_INT8_PER_CU = 5 /* workgroups */
};

struct linear_rows_part {
	const char *q;         /* (N, pitch) bytes, 16-byte aligned */
	const void *scales;    /* (N / group_n, G) of scale_format, e4m3 or e8m0 */
	const uint32_t *zero_points; /* int8: (N/4, G) or NULL: 128 */
	const float *bias;     /* (N) f32, or NULL */
	void *y;               /* (M, N), as `store` says */
	int32_t n, pitch;      /* bytes from row to row, a multiple of 16 (blocks: even) */
	int32_t first_group;   /* ascending; of a part that is not: past the grid */
	int32_t group_n;       /* rows that share scales */
	int32_t scale_format;
	uint32_t store;        /* enum linear_store */
	float factor;          /* of all scales */
};

struct linear_rows_args {
	struct linear_rows_part part[LINEAR_ROWS_MAX_PART];
	const uint16_t *x;     /* (M, K) f16, 16-byte aligned */
	int32_t k;             /* a multiple of LINEAR_ROWS_EACH */
	int32_t n_tok;         /* at most M of the kernel */
	int32_t n_groups;      /* of a row; 1: a scale a row */
	int32_t group_shift;   /* log2 of a group's elements; n_groups 1: 31 */
	int32_t grid;
};

/* Elements of K in 16 bytes of a row. */
#define LINEAR_ROWS_EACH(bits) (128 / (bits))
#define LINEAR_ROWS_LDS_BYTES(m, k) ((m) * (k) * 2)
/* 16-byte pieces from token to token. */
#define LINEAR_QUAD_INT8_PITCH(k) ((k) / 8 + 4)
#define LINEAR_QUAD_INT8_LDS_BYTES(m, k) ((m) * LINEAR_QUAD_INT8_PITCH(k) * 16)
#define LINEAR_BLOCKS_LDS_BYTES(m, k) ((m) * (((k) + 63) / 64 * 64) * 2)

#ifdef DEVICE
/* The part that workgroup `group` is of; *end: the group after its last. */
DEVICE linear_rows_part linear_rows_find(const linear_rows_args &a, int32_t group,
					 int32_t *end)
{
	linear_rows_part p = a.part[LINEAR_ROWS_MAX_PART - 1];
	*end = a.grid;
	UNROLL
	for (int i = LINEAR_ROWS_MAX_PART - 2; i >= 0; i--)
		if (group < a.part[i + 1].first_group) {
			p = a.part[i];
			*end = a.part[i + 1].first_group;
		}
	*end = *end < a.grid ? *end : a.grid;
	return p;
}
#endif
