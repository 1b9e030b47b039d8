/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch arguments of index.hip, with device addresses: kernels/ops/index.h explains them. C
 * for the host, C++ for the kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	INDEX_PUT_THREADS = 128,
	INDEX_FILL_WAVES = 4,
	INDEX_MAX_KEY = 512,  /* elements of a key, a multiple of 8 */
	INDEX_HELD_KEY = 128, /* elements of a key that index_score holds in registers */
	INDEX_SCORE_THREADS = 128,
	INDEX_TOKENS = 16,
	INDEX_THREADS = 512,
	INDEX_WAVES = INDEX_THREADS / 32,
	INDEX_HELD_ROWS = 64, /* keys that a thread of index_choose holds */
};
/* Bytes of LDS of index_choose: the chosen blocks. */
#define INDEX_LDS(top) ((top) * 4)

struct index_keys_launch {
	int32_t n_tok, dim, ratio, row, n_freq;
	float eps;
	const uint16_t *key;
	const float *norm, *bias, *rope;
	const int32_t *slot;
	uint16_t *keys, *blocks;
};

struct index_choose_launch {
	int32_t n_heads, dim, ratio, row, top, max_pages_per_seq, page_size;
	int32_t n_work; /* sort keys a token */
	const uint16_t *q, *blocks;
	const float *weight; /* (T, n_heads), or NULL: 1 */
	const int32_t *seq_of, *position, *page_table;
	uint32_t *work;
	int32_t *table, *last;
};
