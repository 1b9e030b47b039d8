/* SPDX-License-Identifier: Apache-2.0
 *
 * How kv_widen.hip is launched. C for the host, C++ for the kernel.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum { KV_WIDEN_THREADS = 256 };

/* Device addresses; as in struct attention_launch. */
struct kv_widen_launch {
	const uint8_t *k, *v;            /* (n_pages, G, P, K) bytes */
	const uint16_t *k_scale, *v_scale; /* (n_pages, G, P) f16 */
	uint16_t *wide_k, *wide_v;       /* (n_pages, G, P, K) f16 */
	const int32_t *position, *first_tok, *page_table;
	int32_t max_pages_per_seq, page_size;
	int32_t rows;          /* of a page: G * P */
	int32_t head_dim;      /* K, a multiple of 16 */
	int32_t window;        /* see attention_seen.h */
	uint32_t skips_single; /* leave out sequences with one token */
};
