/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/kv_copy.h"

void kv_copy_ref(const struct kv_copy_args *a)
{
	size_t n = (size_t)a->n_kv_heads * (size_t)a->kv.page_size *
		   (size_t)a->head_dim * dtype_bytes(a->kv.type);
	char *pages[] = {a->kv.k, a->kv.v};
	for (int i = 0; i < 2; i++)
		for (size_t j = 0; j < n; j++)
			pages[i][(size_t)a->dst * n + j] =
				pages[i][(size_t)a->src * n + j];
}
