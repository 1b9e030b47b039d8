/* SPDX-License-Identifier: Apache-2.0
 *
 * How qk_norm_rope_kv.hip is launched. C for the host, C++ for the kernel.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	QK_NORM_ROPE_KV_WAVES = 4,   /* waves of a workgroup, one head each */
	QK_NORM_ROPE_KV_WIDEST = 256 /* most elements of a head in the bytes kernel */
};

/* Like struct qk_norm_rope_kv_args; device addresses. */
struct qk_norm_rope_kv_launch {
	uint16_t *q;          /* (T, H, K) f16 */
	const uint16_t *k;    /* (T, G, K) f16 */
	const uint16_t *v;    /* (T, G, K) f16 */
	const float *q_norm;  /* (K) norm weights, or NULL: no norm */
	const float *k_norm;  /* (K) norm weights, or NULL: no norm */
	const float *rope;    /* (T, n_freq, 2) */
	const int32_t *slot;  /* (T) page * P + offset */
	uint16_t *k_pages;    /* (n_pages, G, P, K) f16 */
	uint16_t *v_pages;
	uint16_t *k_scale;    /* bytes kernel: (n_pages, G, P) f16, and pages are bytes */
	uint16_t *v_scale;
	int32_t n_heads, n_kv_heads, head_dim, n_freq, page_size;
	float eps;
	int32_t q_pitch;        /* elements of q_from between heads */
	uint32_t norm_after_rope; /* 1: norm weights are applied after the rotation */
	const uint16_t *q_from; /* (T, H, q_pitch) f16, or NULL: q */
	const float *q_scale;   /* (T), or NULL: 1 */
};
