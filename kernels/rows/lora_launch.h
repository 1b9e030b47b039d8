/* SPDX-License-Identifier: Apache-2.0
 *
 * The argument of lora_add's kernels, with device addresses. C for the host, C++ for the kernels.
 */
#pragma once
#include "kernels/ops/lora_part.h"

enum {
	LORA_THREADS = 512,
	LORA_ROWS = 16,    /* rows of A, and of B, that a thread takes at once */
	LORA_OUTS = 4,     /* LINEAR_MAX_OUT */
	LORA_FEW_TOK = 16, /* most tokens for one launch in place of two */
};

/* Bytes of LDS of workgroups that compute low: the waves' sums, and `rank` numbers. */
#define LORA_LDS(rank) ((LORA_THREADS / 32 * LORA_ROWS + (rank)) * 4)

struct lora_launch {
	const uint16_t *x;      /* (T, K) f16, or of each head */
	const int32_t *adapter; /* (T) */
	const float *scale;     /* (T) */
	float *low;             /* (T, n_out, rank), or of each head; many tokens */
	const struct lora_part *part[LORA_OUTS];
	void *y[LORA_OUTS];
	int32_t n[LORA_OUTS];
	int32_t is_f32[LORA_OUTS];
	int32_t is_new[LORA_OUTS];
	int32_t n_in, n_out, rank;
	int32_t n_heads;          /* 1, or n_out is 1 */
	int32_t x_pitch, y_pitch; /* of heads; y_pitch 0: N */
	int32_t a_step, b_step;
	int32_t a_width;          /* columns of A */
	int32_t b_more;           /* rows of B beyond N */
	int32_t by_fours;         /* A and x begin, and their rows end, at multiples of four */
	int32_t filler;
};
