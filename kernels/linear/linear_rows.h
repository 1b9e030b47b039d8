/* SPDX-License-Identifier: Apache-2.0
 *
 * How linear_rows_dot.h and linear_blocks.h are launched: arguments, limits, LDS.
 * C for the host, C++ for the kernels.
 *
 * A launch takes up to four weights of one format and K at 1..16 tokens; linear_blocks at
 * 1..8, linear_pair weights of two formats at 1..2. Each weight (part) has its own workgroups,
 * beginning at first_group; the host chooses how many. The bits of a row depend neither on M
 * nor on the grid. There are kernels for 1, 2, 4, 8 and 16 tokens.
 *
 * A group is a power of two of at least 16 elements (32 for weights of four bits other
 * than nvfp4), or a whole row. linear_blocks: scales are inside q, K is whole blocks.
 */
#pragma once
#include "kernels/linear/fused_norm.h"
#include "kernels/linear/linear_store.h"
#include "kernels/weights/weight_view.h"

enum {
	LINEAR_ROWS_MAX_TOK = 16,
	/* kernels for so many tokens or more can hold slices of K in LDS */
	LINEAR_ROWS_SLICED_TOK = 4,
	LINEAR_BLOCKS_MAX_TOK = 8,
	LINEAR_PAIRS_MAX_TOK = 2,
	LINEAR_ROWS_MAX_PART = 4,
	LINEAR_ROWS_WAVES = 8,   /* waves in a workgroup: see LINEAR_ROWS_WAVES_OF */
	LINEAR_ROWS_TILE = 2,    /* rows that a wave sums at once */
	LINEAR_ROWS_LDS = 65536, /* bytes of LDS that a workgroup may have */
	LINEAR_ROWS_NORM_K = 32, /* inputs of a fused norm at least: LDS holds its sums, too */
	LINEAR_BLOCKS_THRDS = 16 /* lanes that share a row */
};

struct linear_rows_part {
	const char *q;         /* (N, pitch) bytes, 16-byte aligned */
	const void *scales;    /* (N / group_n, G); of scale_format, or e4m3 or e8m0 as
			        * the format says */
	const uint32_t *zero_points; /* int8: (N/4, G), or NULL: zero is 128 */
	const float *bias;     /* (N) f32, or NULL */
	void *y;               /* (M, N), f16 or f32: see `store` */
	int32_t n, pitch; /* pitch: bytes from row to row, a multiple of 16 (blocks: even) */
	int32_t first_group;   /* ascending; beyond the grid for an unused part */
	int32_t group_n;       /* rows that share a scale (FP8 in blocks) */
	int32_t scale_format;
	uint32_t store;        /* enum linear_store: how to store y */
	float factor;          /* factor of all scales */
	int32_t is_other;      /* linear_pair: q has the second format */
};

struct linear_rows_args {
	struct linear_rows_part part[LINEAR_ROWS_MAX_PART];
	const uint16_t *x;     /* (M, K) f16, 16-byte aligned */
	int32_t k;             /* inputs; a multiple of LINEAR_ROWS_EACH */
	int32_t n_tok;         /* tokens; at most the kernel's M */
	int32_t n_groups;      /* groups of a row */
	int32_t group_shift;   /* log2(elements of a group), or 31 if n_groups is 1 */
	int32_t grid;
	int32_t filler; /* tests/lint/check-padding */
	struct fused_norm norm; /* at most FUSED_NORM_TOK tokens; its y is x */
};

/* Elements of K in 16 bytes of a row. */
#define LINEAR_ROWS_EACH(bits) (128 / (bits))
/* linear_rows for m tokens: waves in a workgroup, most elements of K in LDS, bytes of LDS. */
#define LINEAR_ROWS_WAVES_OF(m) ((m) > 8 ? 16 : LINEAR_ROWS_WAVES)
#define LINEAR_ROWS_SLICE(m) (LINEAR_ROWS_LDS / 2 / (m))
#define LINEAR_ROWS_LDS_BYTES(n_tok, m, k) \
	((m) > LINEAR_ROWS_WAVES ? LINEAR_ROWS_LDS \
	 : (k) < LINEAR_ROWS_SLICE(m) ? (n_tok) * (k) * 2 \
	 : (n_tok) * LINEAR_ROWS_SLICE(m) * 2)
/* linear_blocks with m tokens: a lane sums TILE rows at once, a workgroup ROWS rows. */
#define LINEAR_BLOCKS_TILE(m) ((m) > 4 ? 1 : 2)
#define LINEAR_BLOCKS_ROWS(m) \
	(LINEAR_ROWS_WAVES * 32 / LINEAR_BLOCKS_THRDS * LINEAR_BLOCKS_TILE(m))
#define LINEAR_BLOCKS_LDS_BYTES(m, k) ((m) * (((k) + 63) / 64 * 64) * 2)

#ifdef DEVICE
/* The part that workgroup `group` works on; *end is the index after the part's last
 * workgroup. */
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
