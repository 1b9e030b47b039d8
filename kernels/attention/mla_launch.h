/* SPDX-License-Identifier: Apache-2.0
 *
 * How head_linear.hip and mla_rope_kv.hip are launched. C for the host, C++ for the
 * kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	HEAD_LINEAR_WAVES = 4,
	HEAD_LINEAR_TOK = 4,      /* transposed: tokens of a thread */
	HEAD_LINEAR_THREADS = 128,
	MLA_ROPE_THREADS = 128,
};

/* Like struct head_linear_args without the weight; device addresses. */
struct head_linear_launch {
	int32_t n_tok, n_heads, pitch, first, n;
	int32_t x_pitch, y_pitch;
	int32_t filler; /* tests/lint/check-padding */
	const uint16_t *x; /* (T, H, x_pitch) f16 */
	uint16_t *y;       /* (T, H, y_pitch) f16 */
};

/* Like struct mla_rope_kv_args; device addresses. */
struct mla_rope_kv_launch {
	int32_t n_heads, c_dim, rope_dim, q_pitch, page_size;
	uint32_t is_interleaved;
	float eps, q_scale;
	const uint16_t *q_from;  /* (T, H, q_pitch) f16 */
	uint16_t *q;             /* (T, H, C + N) f16 */
	const uint16_t *kv_from; /* (T, C + N) f16 */
	const float *norm;       /* (C) */
	const float *rope;       /* (T, N/2, 2) */
	const int32_t *slot;     /* (T) page * P + offset */
	uint16_t *k_pages;       /* (n_pages, 1, P, C + N) f16 */
};
