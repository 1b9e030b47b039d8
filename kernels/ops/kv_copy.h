/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies one page of keys and values to another, when a fork needs its own copy to write
 * to. If kv.v is NULL, there are only keys.
 */
#pragma once
#include "kernels/ops/kv_pages.h"

struct kv_copy_args {
	int32_t n_kv_heads, head_dim;
	int32_t dst, src; /* host: page numbers, not equal */
	struct kv_pages kv;
};

void kv_copy_ref(const struct kv_copy_args *a);
