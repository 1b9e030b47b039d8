/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/kv_copy.h"

void kv_copy_ref(const struct kv_copy_args *a)
{
	size_t rows = (size_t)a->n_kv_heads * (size_t)a->kv.page_size;
	size_t n = rows * (size_t)a->head_dim * dtype_bytes(a->kv.type), s = rows * 2;
	char *pages[] = {a->kv.k, a->kv.v, (char *)a->kv.k_scale, (char *)a->kv.v_scale};
	const size_t bytes[] = {n, n, s, s};
	for (int i = 0; i < (a->kv.type == DTYPE_I8 ? 4 : 2); i++)
		for (size_t j = 0; j < bytes[i]; j++)
			pages[i][(size_t)a->dst * bytes[i] + j] =
				pages[i][(size_t)a->src * bytes[i] + j];
}
