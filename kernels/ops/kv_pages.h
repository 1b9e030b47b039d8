/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer's keys and values. Pages are head-major: the P tokens of a page are
 * contiguous for each head, so that a head is read in one run.
 */
#pragma once
#include <stddef.h>

#include "kernels/ops/kv_bytes.h"

struct kv_pages {
	void *k, *v; /* (n_pages, G, P, K) kv; v may have another K, or be NULL (attention.h) */
	/* kv: F32 or F16, which the backend chooses. Or I8: bytes with a scale a row, and keys
	 * after the Hadamard transform (kv_bytes.h), for K a multiple of KV_PAGES_ALIGN up to
	 * KV_PAGES_WIDEST, with values of the same K, and without sinks. */
	enum dtype type;
	int32_t page_size; /* P: tokens in a page */
	uint16_t *k_scale, *v_scale; /* I8: (n_pages, G, P) f16; else NULL */
	/* I8, where the backend widens_kv: work memory, (n_pages, G, P, K) f16 each. No
	 * operation relies on what an earlier one left there. Else NULL. */
	void *wide_k, *wide_v;
};
enum { KV_PAGES_ALIGN = 16, KV_PAGES_WIDEST = 256 };

/* Bytes of a row of `dim` elements of a type, with its scale. */
static inline size_t kv_pages_row_bytes(enum dtype type, int32_t dim)
{
	return (size_t)dim * dtype_bytes(type) + (type == DTYPE_I8 ? sizeof(uint16_t) : 0);
}

/* Index of the row of head g for the token in `slot` (page * P + offset). */
static inline size_t kv_pages_row(const struct kv_pages *kv, int32_t n_kv_heads,
				  int32_t slot, int32_t g)
{
	size_t page = (size_t)(slot / kv->page_size);
	size_t offset = (size_t)(slot % kv->page_size);
	return (page * (size_t)n_kv_heads + (size_t)g) * (size_t)kv->page_size + offset;
}

/* Index of the first element of the row of head g for the token in `slot`. */
static inline size_t kv_pages_at(const struct kv_pages *kv, int32_t n_kv_heads,
				 int32_t head_dim, int32_t slot, int32_t g)
{
	return kv_pages_row(kv, n_kv_heads, slot, g) * (size_t)head_dim;
}
