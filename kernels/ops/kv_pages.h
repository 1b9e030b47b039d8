/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer's keys and values. Pages are head-major: the P tokens of a page are
 * contiguous for each head, so that a head is read in one run.
 */
#pragma once
#include <stddef.h>

#include "model/formats/blocks.h"

struct kv_pages {
	void *k, *v; /* (n_pages, G, P, K) kv; v may have another K, or be NULL (attention.h) */
	enum dtype type;   /* kv: F32 or F16 */
	int32_t page_size; /* P: tokens in a page */
};

/* Index of the first element of head g for the token in `slot` (page * P + offset). */
static inline size_t kv_pages_at(const struct kv_pages *kv, int32_t n_kv_heads,
				 int32_t head_dim, int32_t slot, int32_t g)
{
	size_t page = (size_t)(slot / kv->page_size);
	size_t offset = (size_t)(slot % kv->page_size);
	size_t row = (page * (size_t)n_kv_heads + (size_t)g) *
			     (size_t)kv->page_size + offset;
	return row * (size_t)head_dim;
}
