/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch arguments of compress.hip, with device addresses: kernels/ops/compress.h explains
 * them. C for the host, C++ for the kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum { COMPRESS_THREADS = 128, COMPRESS_MAX_DIM = 1024 };

/* Like struct row_pages, with device addresses and rows of halves. */
struct row_pages_launch {
	uint16_t *rows;
	int32_t page_size, page_rows, first_row, n_rows;
};

struct rope_tail_launch {
	int32_t n_heads, dim, n_freq;
	uint32_t normalises;
	float eps, sign; /* sign: factor of the sine */
	const uint16_t *x;
	const float *norm, *rope;
	uint16_t *y;
	const int32_t *slot;
	struct row_pages_launch to;
};

struct compress_launch {
	int32_t dim, ratio, n_series, n_freq, max_pages_per_seq;
	float eps;
	const uint16_t *value, *gate;
	const float *bias, *norm, *rope;
	const int32_t *slot, *seq_of, *position, *page_table;
	uint16_t *values, *gates;
	struct row_pages_launch to;
};

struct see_rows_launch {
	int32_t window, ratio, max_pages_per_seq, width, chosen_pitch;
	int32_t filler; /* tests/lint/check-padding */
	const int32_t *seq_of, *position, *page_table, *chosen, *chosen_last;
	struct row_pages_launch of;
	int32_t *table, *last;
};
